/**
 * Waiting messages among which a claim looks for keys, where one message of a key is claimed at a time. Bounded, so that a
 * long backlog of one key costs little: it fills the window alone, is busy then, and lets the next claim see the others.
 */
export const KEY_WINDOW = 500;
