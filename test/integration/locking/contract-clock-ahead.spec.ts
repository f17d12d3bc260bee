import { describeLockContract } from './contract/lock-contract';
import { openPostgresLocks } from './contract/postgres-locks';

describeLockContract('PostgreSQL', openPostgresLocks, 1);
