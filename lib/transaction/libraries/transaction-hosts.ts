import type { DiscoveryService } from '@nestjs/core';
import { addLibrary, isBridged } from '../bridge';
import { dataSourceOfHost, isTransactionHost, NestjsClsLibrary, type TransactionHost } from './nestjs-cls';

/**
 * Lets the transaction hosts of an application take part in the transactions of their data sources, where those are bridged.
 *
 * @returns undoes it
 */
export function connectTransactionHosts(discovery: DiscoveryService): () => void {
  const hosts = new Set<TransactionHost>();
  for (const { instance } of discovery.getProviders()) {
    if (isTransactionHost(instance)) hosts.add(instance);
  }
  const undo = [...hosts].flatMap((host) => {
    const dataSource = dataSourceOfHost(host);
    if (!dataSource || !isBridged(dataSource)) return [];
    const library = new NestjsClsLibrary(host, dataSource);
    return [addLibrary(dataSource, library), library.connect()];
  });
  return () => undo.forEach((each) => each());
}
