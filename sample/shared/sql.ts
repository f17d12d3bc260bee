import { Client } from 'pg';

/** The demo looks into the tables on a connection of its own: what counts is what is committed. */
export class Sql {
  private constructor(
    private readonly client: Client,
    readonly url: string,
  ) {}

  static async connect(url: string): Promise<Sql> {
    const client = new Client({ connectionString: url, application_name: 'demo' });
    client.on('error', () => undefined);
    await client.connect();
    return new Sql(client, url);
  }

  async rows<R extends object>(sql: string, parameters: unknown[] = []): Promise<R[]> {
    return parameters.length > 0
      ? (await this.client.query<R>(sql, parameters)).rows
      : (await this.client.query<R>(sql)).rows;
  }

  async number(sql: string, parameters: unknown[] = []): Promise<number> {
    const [row] = await this.rows<Record<string, unknown>>(sql, parameters);
    return Number(Object.values(row ?? {})[0]);
  }

  close(): Promise<void> {
    return this.client.end();
  }
}
