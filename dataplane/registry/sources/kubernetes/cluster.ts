import { Agent, type Dispatcher } from 'undici'
import { secretFile } from '../../../config/secret-file.ts'
import { guardedConnect } from '../../../net/connect.ts'
import type { Budget } from '../format/budget.ts'
import type { LocationOf } from '../format/source.ts'
import { SourceError } from '../format/source-error.ts'
import { splitJson } from '../format/split-json.ts'

/** The kinds whose objects may be exported to a registry. Of equal names, that of the first kind counts. */
export const EXPORTED_KINDS = [
  { kind: 'VirtualMCPServer', plural: 'virtualmcpservers' },
  { kind: 'MCPServer', plural: 'mcpservers' },
  { kind: 'MCPRemoteProxy', plural: 'mcpremoteproxies' },
  { kind: 'MCPServerEntry', plural: 'mcpserverentries' },
] as const

const VERSION = 'v1beta1'

/** The part of an object that its entry is made of. */
export interface Exportable {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly uid: string
    readonly annotations?: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
  readonly spec?: { readonly transport?: string }
}

/** The API server, for reads of the exported kinds. */
export interface Cluster extends AsyncDisposable {
  /** GETs objects of a kind in a namespace; undefined if the API server has no such kind. Throws a SourceError. */
  get(
    plural: string,
    namespace: string,
    query: Readonly<Record<string, string>>,
    options: { readonly signal: AbortSignal; readonly idleMs: number },
  ): Promise<Dispatcher.ResponseData['body'] | undefined>
}

/** Opens the API server. The token is read again when it rotates, and only the cluster's CA is trusted. */
export function openCluster({ server, tokenFile, caFile, group }: LocationOf<'kubernetes'>): Cluster {
  const agent = new Agent({ connect: guardedConnect({ allowPrivateIP: true, caBundleFile: caFile }), pipelining: 1 })
  const { origin } = new URL(server)
  const readToken = secretFile(tokenFile)

  return {
    async get(plural, namespace, query, { signal, idleMs }) {
      try {
        const { statusCode, body } = await agent.request({
          origin,
          path: `/apis/${group}/${VERSION}/namespaces/${encodeURIComponent(namespace)}/${plural}?${new URLSearchParams(query)}`,
          method: 'GET',
          headers: { authorization: `Bearer ${readToken()}`, accept: 'application/json' },
          signal,
          headersTimeout: 30_000,
          bodyTimeout: idleMs,
        })
        if (statusCode === 200) return body
        await body.dump()
        if (statusCode === 404) return undefined
        throw buildStatusError(statusCode, plural, namespace)
      } catch (error) {
        throw signal.aborted ? signal.reason : buildFailure(error as Error & { code?: string })
      }
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

function buildStatusError(status: number, plural: string, namespace: string): SourceError {
  const what = `${plural} in namespace ${namespace}`
  if (status === 401) return new SourceError('forbidden', 'the API server does not accept our token (401)')
  if (status === 403)
    return new SourceError('forbidden', `the service account may not list and watch ${what} (403); a Role is missing`)
  if (status === 410) return new SourceError('upstream_failed', `the watch on ${what} is too far behind (410)`)
  return new SourceError('upstream_failed', `the API server answers ${status} for ${what}`)
}

function buildFailure(error: Error & { code?: string }): SourceError {
  if (error instanceof SourceError) return error
  if (error.message.startsWith('the file ')) return new SourceError('file_unreadable', error.message)
  return new SourceError('unreachable', `the API server can’t be reached (${error.code ?? error.name})`, {
    cause: error,
  })
}

const PAGE_SIZE = '500'
const IDLE_MS = 30_000
/** An object has at most 1.5 MiB in etcd, and may be longer in JSON. */
const LONGEST_OBJECT = 4 * 1024 * 1024
const SHAPE = { items: 'elements' } as const

interface ListMetadata {
  readonly resourceVersion?: string
  readonly continue?: string
}

export interface ListOptions {
  readonly plural: string
  readonly namespace: string
  readonly signal: AbortSignal
}

/**
 * Lists all objects of a kind in a namespace. It holds one object at a time, besides those that `take` keeps. Returns
 * false if there is no such kind. Throws a SourceError.
 */
export async function listObjects(
  cluster: Cluster,
  { plural, namespace, signal }: ListOptions,
  { budget, take }: { readonly budget: Budget; take(object: Exportable): void },
): Promise<boolean> {
  for (let next: string | undefined; ; ) {
    const query = { limit: PAGE_SIZE, ...(next !== undefined && { continue: next }) }
    const body = await cluster.get(plural, namespace, query, { signal, idleMs: IDLE_MS })
    if (body === undefined) return false
    const metadata = await readList(
      body,
      (piece) => budget.addBytes(piece.length),
      (object) => {
        budget.addEntry()
        take(object)
      },
    )
    next = metadata.continue || undefined
    if (next === undefined) return true
  }
}

function ignore(): void {
  // Only the metadata of the list matters.
}

/** Returns the resource version of a list, from which a watch begins; undefined if there is no such kind. */
export async function listVersion(
  cluster: Cluster,
  { plural, namespace, signal }: ListOptions,
): Promise<string | undefined> {
  const body = await cluster.get(plural, namespace, { limit: '1' }, { signal, idleMs: IDLE_MS })
  if (body === undefined) return undefined
  const { resourceVersion } = await readList(body, ignore, ignore)
  if (resourceVersion === undefined) throw buildListError('has no resourceVersion')
  return resourceVersion
}

async function readList(
  body: AsyncIterable<Buffer>,
  onPiece: (piece: Buffer) => void,
  onObject: (object: Exportable) => void,
): Promise<ListMetadata> {
  let metadata: ListMetadata = {}
  const splitter = splitJson(SHAPE, LONGEST_OBJECT, ({ pointer, list, value }) => {
    if (value === 'opened') return
    if (list !== undefined) {
      if (value === 'oversize') throw new SourceError('too_large', `an object has more than ${LONGEST_OBJECT} bytes`)
      onObject(JSON.parse(value.toString()) as Exportable)
    } else if (pointer === '/metadata' && value !== 'oversize')
      metadata = (JSON.parse(value.toString()) ?? {}) as ListMetadata
  })
  try {
    for await (const piece of body) {
      onPiece(piece)
      splitter.push(piece)
    }
    splitter.end()
  } catch (error) {
    if (error instanceof SourceError) throw error
    throw buildListError(`broke off (${(error as Error).name})`)
  }
  return metadata
}

const buildListError = (how: string) => new SourceError('upstream_failed', `the API server’s list ${how}`)
