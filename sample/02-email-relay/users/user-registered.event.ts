/** Carries the `User`. */
export const USER_REGISTERED = 'user.registered';
