export const MINIMUM_SERVER = 'PostgreSQL 13';

/** The same as `server_version_num` has it. */
export const MINIMUM_SERVER_NUMBER = 130_000;
