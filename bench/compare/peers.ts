import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'undici'
import { freePort } from '../../test/support/network/free-port.ts'
import { send } from '../gateway/load.ts'
import type { Part } from '../gateway/parts.ts'
import { type Era, openSession, toolsList } from '../gateway/requests.ts'
import { gatewayName, type Target } from '../shipped/measure.ts'
import { startProcess } from '../shipped/process.ts'

interface Recipe {
  /** Its program, which is looked for on the PATH. */
  readonly program: string
  readonly file: string
  config(backends: readonly Part[], port: number): string
  args(file: string, port: number): readonly string[]
  readonly path: string
  readonly separator: string
}

const nameBackends = (backends: readonly Part[]) =>
  backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` }))

export const RECIPES: readonly Recipe[] = [
  {
    program: 'vmcp',
    file: 'vmcp.yaml',
    config: (backends) =>
      JSON.stringify({
        name: 'bench',
        groupRef: 'bench',
        incomingAuth: { type: 'anonymous' },
        outgoingAuth: { source: 'inline', default: { type: 'unauthenticated' } },
        aggregation: { conflictResolution: 'prefix', conflictResolutionConfig: { prefixFormat: '{workload}_' } },
        backends: nameBackends(backends).map((backend) => ({ ...backend, transport: 'streamable-http' })),
      }),
    args: (file, port) => ['serve', '--config', file, '--host', '127.0.0.1', '--port', String(port)],
    ...{ path: '/mcp', separator: '_' },
  },
  {
    program: 'agentgateway',
    file: 'agentgateway.yaml',
    config: (backends, port) =>
      JSON.stringify({
        binds: [
          {
            port,
            listeners: [
              {
                routes: [
                  {
                    matches: [{ path: { exact: '/mcp' } }],
                    backends: [
                      {
                        mcp: { targets: nameBackends(backends).map(({ name, url }) => ({ name, mcp: { host: url } })) },
                      },
                    ],
                  },
                ],
              },
            ],
          },
        ],
      }),
    args: (file) => ['-f', file],
    ...{ path: '/mcp', separator: '_' },
  },
  {
    program: 'mcp-proxy',
    file: 'mcp-proxy.toml',
    config: (backends, port) =>
      [
        '[proxy]\nname = "bench"\n[proxy.listen]\nhost = "127.0.0.1"',
        `port = ${port}`,
        ...nameBackends(backends).map(
          ({ name, url }) => `[[backends]]\nname = "${name}"\ntransport = "http"\nurl = "${url}"`,
        ),
      ].join('\n'),
    args: (file) => ['--config', file],
    ...{ path: '/', separator: '/' },
  },
]

const findProgram = (name: string) =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file))

/** Returns the installed ones, and prints a line for each of the others. */
export const installedPeers = (directory: string): Target[] =>
  RECIPES.flatMap((recipe) => {
    const program = findProgram(recipe.program)
    if (program !== undefined) return [peerTarget(recipe, program, directory)]
    console.log(`${recipe.program} is left out: not on the PATH`)
    return []
  })

function peerTarget(
  { program: name, file, config, args, path, separator }: Recipe,
  program: string,
  directory: string,
) {
  const leftOut = new Set<Era>()
  return {
    name,
    async start(era, backends) {
      if (leftOut.has(era)) return undefined
      const port = await freePort()
      const configFile = join(directory, file)
      await writeFile(configFile, config(backends, port))
      const { pid, end } = await startProcess([program, ...args(configFile, port)], {})
      const origin = `http://127.0.0.1:${port}`
      try {
        await untilItLists(origin, path, era, PEER_MS)
      } catch (error) {
        leftOut.add(era)
        console.log(`${name} is left out of the ${era} era: ${String(error).slice(0, 300)}`)
        end()
        return undefined
      }
      return { pid, origin, path, name: gatewayName(separator), tokens: [], hasSessions: true, end }
    },
  } satisfies Target
}

const PEER_MS = 20_000
const OWNER_MS = 120_000

/** Parses NAME=URL,pid=N[,era=modern][,separator=/], an endpoint that is already running. Throws if it is malformed. */
export function externalTarget(text: string): Target {
  const [, name = '', address = '', more = ''] = /^([^=]+)=([^,]+),?(.*)$/.exec(text) ?? []
  const options = new Map(more.split(',').map((pair) => pair.split('=') as [string, string]))
  const pid = Number(options.get('pid'))
  if (!URL.canParse(address) || !(pid > 0)) throw new Error(`not NAME=URL,pid=N: ${text}`)
  const { origin, pathname: path } = new URL(address)
  return {
    name,
    async start(era) {
      if (era !== (options.get('era') ?? 'legacy')) return undefined
      await untilItLists(origin, path, era, OWNER_MS)
      const tool = gatewayName(options.get('separator') ?? '_')
      return { pid, origin, path, name: tool, tokens: [], hasSessions: true, end: () => undefined }
    },
  }
}

/** Waits until an endpoint lists the tools of the backends. Rejects with its last answer. */
async function untilItLists(origin: string, path: string, era: Era, patienceMs: number): Promise<void> {
  const until = performance.now() + patienceMs
  const client = new Client(origin)
  try {
    for (;;) {
      try {
        const session = era === 'legacy' ? await openSession(origin + path) : undefined
        await send(client, toolsList(era, session), path)
        return
      } catch (error) {
        if (performance.now() > until) throw error
        await sleep(100)
      }
    }
  } finally {
    await client.destroy()
  }
}
