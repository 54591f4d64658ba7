import { isObject } from '../../crds/settings/json.ts'
import { type Command, UsageError } from '../command.ts'
import { clusterOptions, inCluster, readWorkload, WORKLOAD } from './cluster.ts'
import { callerOptions, type Endpoint, formatRefusal, readToken, withEndpoint } from './endpoint.ts'
import { columns, printable } from './tree.ts'

/** The most pages: a gateway makes its own pages, and a larger number indicates abuse. */
const MOST_PAGES = 1000
const DESCRIPTION = 80

/** Reads the tools that a caller sees. Throws an Error with the reason if that fails. */
export async function listTools(endpoint: Endpoint): Promise<readonly Record<string, unknown>[]> {
  const tools: Record<string, unknown>[] = []
  let cursor: unknown
  for (let page = 0; page < MOST_PAGES; page++) {
    const answer = await endpoint.mcp('tools/list', cursor === undefined ? {} : { cursor })
    if (answer.status !== 200) throw new Error(printable(formatRefusal(answer)))
    const { result, error } = JSON.parse(answer.text) as { result?: unknown; error?: unknown }
    if (!isObject(result)) throw new Error(printable(JSON.stringify(error ?? null)).slice(0, 500))
    const { tools: some, nextCursor } = result
    if (Array.isArray(some)) tools.push(...some.filter(isObject))
    if (typeof nextCursor !== 'string') return tools
    cursor = nextCursor
  }
  throw new Error(`there are more than ${MOST_PAGES} pages of tools`)
}

function formatRow({ name, description }: Record<string, unknown>): readonly string[] {
  const text = typeof description === 'string' ? printable(description) : ''
  return [String(name), text.length > DESCRIPTION ? `${text.slice(0, DESCRIPTION - 1)}…` : text]
}

export const command: Command = {
  name: 'tools',
  synopsis: `${WORKLOAD} [options]`,
  about: `Lists the tools that a workload shows to the caller whose token is given, by kubectl port-forward to one of its pods.`,
  options: {
    ...clusterOptions,
    ...callerOptions,
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
  },
  run: (given, io) =>
    inCluster(given, io, async (cluster) => {
      const workload = await readWorkload(given, cluster)
      if (workload.kind === 'MCPRegistry') throw new UsageError('an MCPRegistry has no tools')
      const tools = await withEndpoint({ workload, token: readToken(given, io) }, cluster, io, listTools)
      if (given.text('output') === 'json') io.out(`${JSON.stringify(tools)}\n`)
      else io.out(columns([['NAME', 'DESCRIPTION'], ...tools.map(formatRow)]))
      return 0
    }),
}
