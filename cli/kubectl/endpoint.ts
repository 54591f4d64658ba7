import { readFileSync } from 'node:fs'
import { request } from 'undici'
import { requirePod } from '../../console/places/pods.ts'
import { CAPABILITIES_KEY, MODERN, VERSION_KEY } from '../../dataplane/gateway/mcp/eras.ts'
import { readWithin } from '../../operator/cluster/read-within.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { serviceName } from '../../operator/render/object/object.ts'
import type { Given, Io, Option } from '../command.ts'
import type { Cluster } from './cluster.ts'
import { withForwarded } from './program.ts'

export const callerOptions = {
  'token-file': {
    type: 'string',
    value: 'FILE',
    description: 'File with the caller’s access token; also PORTICO_TOKEN. Absent: anonymous.',
  },
} as const satisfies Readonly<Record<string, Option>>

/** Returns the access token that the command got. */
export function readToken(given: Given, { env }: Io): string | undefined {
  const file = given.text('token-file')
  const text = file === undefined ? env['PORTICO_TOKEN'] : readFileSync(file, 'utf8')
  return text?.trim() || undefined
}

interface Answer {
  readonly status: number
  readonly challenge: string | undefined
  readonly text: string
}

export interface Endpoint {
  get(path: string): Promise<Answer>
  /** Sends one request of the modern era of MCP, whose answer is one JSON text. */
  mcp(method: string, params?: object): Promise<Answer>
}

/** The most bytes of an answer of an endpoint. */
export const MOST_BYTES = 16 * 1024 * 1024
const TIMEOUT_MS = 60_000

const portName = ({ kind }: KubernetesObject) => (kind === 'MCPRegistry' ? 'http' : 'mcp')

/** Returns the path of the MCP endpoint, by the workload's own settings. */
function readMcpPath({ spec }: KubernetesObject): string {
  const { endpointPrefix } = (spec ?? {}) as { readonly endpointPrefix?: string }
  return `${endpointPrefix?.replace(/\/$/, '') ?? ''}/mcp`
}

/** Calls `use` with a pod on a local port, by kubectl port-forward: no other way passes an Authorization header. */
export async function withEndpoint<T>(
  { workload, token }: { readonly workload: KubernetesObject; readonly token: string | undefined },
  cluster: Cluster,
  io: Io,
  use: (endpoint: Endpoint) => Promise<T>,
): Promise<T> {
  const pod = await requirePod(cluster, workload)
  return withForwarded({ pod, port: portName(workload) }, cluster, io, (base) =>
    use(createEndpoint(base, workload, token)),
  )
}

function createEndpoint(base: string, workload: KubernetesObject, token: string | undefined): Endpoint {
  const caller = {
    // The pod accepts the names of its Service.
    host: serviceName(workload.kind, workload.metadata.name),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  const send = async (method: 'GET' | 'POST', path: string, headers: Record<string, string>, body?: string) => {
    const response = await request(`${base}${path}`, {
      method,
      headers: { ...caller, ...headers },
      body: body ?? null,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const challenge = response.headers['www-authenticate']
    return {
      status: response.statusCode,
      challenge: challenge?.toString(),
      text: await readWithin(MOST_BYTES, response.body),
    }
  }
  return {
    get: (path) => send('GET', path, {}),
    mcp(method, params = {}) {
      const _meta = { [VERSION_KEY]: MODERN, [CAPABILITIES_KEY]: {} }
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN,
        'mcp-method': method,
      }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta, ...params } })
      return send('POST', readMcpPath(workload), headers, body)
    },
  }
}

export const formatRefusal = ({ status, challenge, text }: Answer): string =>
  `HTTP ${status}${challenge === undefined ? '' : ` (${challenge.slice(0, 500)})`}: ${text.slice(0, 500)}`
