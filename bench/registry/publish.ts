import { PUBLISHED } from './callers.ts'
import { createClient } from './requests.ts'
import type { MeasuredRegistry } from './server.ts'

const WRITERS = 8
const WARM_UP = 50
const EACH = 300

export interface Published {
  readonly perSecond: number
  /** Publications with another answer than 201. */
  readonly refused: number
  /** Acknowledged ones that can't be read. */
  readonly lost: number
  readonly cpuMs: number
}

/** Publishes new servers with eight writers at once, each on its own connection. */
export async function publishAtOnce(registry: MeasuredRegistry, authorization: string): Promise<Published> {
  const clients = Array.from({ length: WRITERS }, () => createClient(registry.url, authorization))
  const acknowledged: string[] = []
  let refused = 0
  const publish = (round: string, count: number) =>
    Promise.all(
      clients.map(async (client, writer) => {
        for (let index = 0; index < count; index++) {
          const name = `com.published.${round}/server-${writer}-${index}`
          const { status } = await client.post(
            '/v1/entries',
            JSON.stringify({ server: makeDocument(name), claims: PUBLISHED }),
          )
          if (status === 201) acknowledged.push(name)
          else refused++
        }
      }),
    )

  await publish('warm-up', WARM_UP)
  const before = registry.usage()
  const started = performance.now()
  await publish('measured', EACH)
  const seconds = (performance.now() - started) / 1000
  const { cpuMs } = registry.usage()

  let lost = 0
  for (const [index, name] of acknowledged.entries()) {
    const client = clients[index % WRITERS] as (typeof clients)[number]
    const path = `/registry/bench/v0.1/servers/${encodeURIComponent(name)}/versions/latest`
    await client.get(path).catch(() => lost++)
  }
  for (const client of clients) client.close()
  const count = WRITERS * EACH
  return { perSecond: count / seconds, refused, lost, cpuMs: (cpuMs - before.cpuMs) / count }
}

function makeDocument(name: string): object {
  return {
    $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
    name,
    description: `Published as ${name}`.slice(0, 100),
    version: '1.0.0',
    remotes: [{ type: 'streamable-http', url: 'https://published.example.com/mcp' }],
  }
}
