import { existsSync } from 'node:fs';
import { brokerAnswers } from '../../support/broker-answers';
import { PrivateBroker, startPrivateBroker } from '../../support/private-broker';
import { startTcpProxy } from '../../support/tcp-proxy';
import { openTestBroker } from '../../support/test-broker';
import { waitFor } from '../../support/wait-for';

describe('startPrivateBroker', () => {
  let server: PrivateBroker;
  beforeAll(async () => {
    server = await startPrivateBroker({ config: 'channel_max = 77' });
  });
  afterAll(() => server?.close());

  it('runs with the settings of the test', async () => {
    expect(await server.ctl('-q', 'eval', 'application:get_env(rabbit, channel_max).')).toContain('77');
  });

  it.each([
    ['a restart', () => server.restart()],
    ['a crash', () => server.kill().then(() => server.start())],
    ['stop_app and start_app', () => server.stopApp().then(() => server.startApp())],
  ])('ends connections and keeps a durable message over %s', async (_, disturb) => {
    const broker = await openTestBroker(server.url);
    const queue = await broker.assertQueue('durable');
    await broker.sendToQueue(queue, { kept: true }, { messageId: 'persistent' });
    await broker.sendToQueue(queue, { kept: false }, { persistent: false });
    const lost = new Promise((resolve) => broker.channel.connection.once('close', resolve));

    await disturb();
    await lost;
    const after = await openTestBroker(server.url);
    const taken = await after.drain(queue);
    expect(taken.map((message) => message.properties.messageId as string)).toContain('persistent');
    await after.close();
    await broker.close();
  });

  it('refuses clients while its application is stopped', async () => {
    await server.stopApp();
    await expect(brokerAnswers(server.url)).rejects.toThrow();
    await server.startApp();
    expect(await brokerAnswers(server.url)).toBe(true);
  });

  it('sees unacked messages', async () => {
    const broker = await openTestBroker(server.url);
    const queue = await broker.assertQueue('unacked');
    await broker.sendToQueue(queue, {});
    expect(await broker.channel.get(queue)).toBeTruthy();
    expect(await broker.queueDepth(queue)).toEqual({ ready: 0, unacked: 1, consumers: 0 });
    broker.channel.ackAll();
    await broker.drained(queue);
    await broker.close();
  });

  it('a publish whose confirm is held back has arrived all the same', async () => {
    const proxy = await startTcpProxy(server.url);
    const broker = await openTestBroker(proxy.through(server.url));
    const direct = await openTestBroker(server.url);
    const queue = await direct.assertQueue('confirm');
    proxy.hold('down');
    const confirm = broker.sendToQueue(queue, {}).then(
      () => 'confirmed',
      () => 'unknown',
    );
    await waitFor('the message', async () => (await direct.ready(queue)) === 1);
    proxy.cut();
    expect(await confirm).toBe('unknown');
    proxy.resume();
    await broker.close();
    await direct.close();
    await proxy.close();
  });

  it('leaves neither processes nor folder behind at the end', async () => {
    const [folder, pid] = await Promise.all([
      server.ctl('-q', 'eval', 'io:format("~s", [os:getenv("HOME")]).'),
      server.ctl('-q', 'eval', 'io:format("~s", [os:getpid()]).'),
    ]);
    const home = folder.trim().split('\n')[0]?.replace(/ok$/, '') ?? '';
    expect(existsSync(home)).toBe(true);
    await server.close();
    await expect(brokerAnswers(server.url)).rejects.toThrow('ECONNREFUSED');
    expect(existsSync(home)).toBe(false);
    expect(() => process.kill(Number.parseInt(pid, 10), 0)).toThrow('ESRCH');
  });
});
