import type { Budget } from '../format/budget.ts'
import { SourceError } from '../format/source-error.ts'
import { splitJson } from '../format/split-json.ts'
import type { Cluster } from './cluster.ts'
import type { Exportable } from './exported.ts'

const PAGE_SIZE = '500'
const IDLE_MS = 30_000
/** An object is at most 1.5 MiB in etcd; in JSON it may be longer. */
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
 * Lists all objects of a kind in a namespace, one object in memory at a time besides what `take` keeps. False if there
 * is no such kind. Throws a SourceError.
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
  // Only the metadata of the list is read.
}

export async function listVersion(
  cluster: Cluster,
  { plural, namespace, signal }: ListOptions,
): Promise<string | undefined> {
  const body = await cluster.get(plural, namespace, { limit: '1' }, { signal, idleMs: IDLE_MS })
  if (body === undefined) return undefined
  const { resourceVersion } = await readList(body, ignore, ignore)
  if (resourceVersion === undefined) throw broken('has no resourceVersion')
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
    throw broken(`broke off (${(error as Error).name})`)
  }
  return metadata
}

const broken = (how: string) => new SourceError('upstream_failed', `the API server’s list ${how}`)
