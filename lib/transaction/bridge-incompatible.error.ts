/** The transaction bridge found that this TypeORM does not work as it expects. Nothing has been changed. */
export class BridgeIncompatibleError extends Error {
  override readonly name = 'BridgeIncompatibleError';

  /**
   * @param version the TypeORM version found
   * @param failed what did not behave as expected
   */
  constructor(version: string, failed: string) {
    super(
      `The transaction bridge does not work with TypeORM ${version}: ${failed}. Use a TypeORM version that this package ` +
        'lists in its peerDependencies, and make sure that only one copy of typeorm is installed.',
    );
  }
}
