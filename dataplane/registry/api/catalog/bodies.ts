import { Lease, type Share } from '../../../server/budget.ts'
import type { Reader } from '../../store/read/read.ts'
import type { CallerMemory } from '../request/caller-memory.ts'
import type { OpenRegistry } from '../request/gate.ts'
import type { Question } from '../request/query.ts'
import { AskedLately } from './asked-lately.ts'
import { compressed } from './compressed.ts'
import { type Body, KeptBodies } from './kept-bodies.ts'
import { readCatalog } from './read-catalog.ts'

/** Below this a packet is a packet, compressed or not. */
const SMALLEST = 1_400

interface CatalogBodiesOptions {
  readonly reader: Reader
  readonly memory: CallerMemory
  /** Undefined while the store can be reached: only then is it heard of changes, and only then is what was kept true. */
  away(): string | undefined
}

/**
 * The body of what is asked, compressed where `gzip` is allowed and worth it; undefined, and throws, as `readCatalog` does.
 * While it is made it counts against a share, and throws where that is too much.
 */
type CatalogBodies = (
  question: Question,
  open: OpenRegistry,
  gzip: boolean,
  share: Share,
) => Body | Promise<Body | undefined>

/** What is made, and for whom. */
interface Wanted {
  readonly question: Question
  readonly open: OpenRegistry
  readonly gzip: boolean
  readonly share: Share
}

/**
 * Makes the function that finds bodies. They are kept by the same that the ETag is made of: the registry's revision and
 * what the caller sees, so that one who sees something else never gets them, and they are passed over as soon as anything
 * has changed. What several ask for at once is read and compressed once (measured: gzip of 130 kB costs 1.6 to 5.5 ms).
 */
export function createCatalogBodies({ reader, memory, away }: CatalogBodiesOptions): CatalogBodies {
  const kept = new KeptBodies()
  const asked = new AskedLately()
  const making = new Map<string, Promise<Body | undefined>>()

  async function read(question: Question, open: OpenRegistry, share: Share): Promise<Body | undefined> {
    const held = new Lease(share)
    try {
      return await readCatalog(reader, question, open, (bytes) => held.demand(bytes))
    } finally {
      held.release()
    }
  }

  async function make({ question, open, gzip, share }: Wanted): Promise<Body | undefined> {
    const known = gzip && away() === undefined ? kept.get(keyOf(question, open, false)) : undefined
    const plain = known ?? (await read(question, open, share))
    if (!gzip || plain === undefined || plain.bytes.length < SMALLEST) return plain
    const { bytes, revision } = plain
    return { bytes: await memory.during(share, bytes.length, () => compressed(bytes)), gzip, revision }
  }

  async function makeAndKeep(key: string, wanted: Wanted) {
    try {
      const body = await make(wanted)
      if (body?.revision !== undefined && isKept(key, wanted.question, body)) kept.keep(key, body)
      return body
    } finally {
      making.delete(key)
    }
  }

  /**
   * Who walks through the whole list asks for each later page once, and who looks up all that there is for each entry:
   * kept, they would drive out what is asked for over and over. To compress them again would cost more than that. What
   * shows nothing is read anew each time, as is whether it is still so.
   */
  function isKept(key: string, { asks, query }: Question, { gzip }: Body): boolean {
    if (gzip) return true
    return asks === 'version' ? asked.again(key) : query.after === undefined && (asks === 'list' || asked.again(key))
  }

  return function bodyOf(question, open, gzip, share) {
    const key = keyOf(question, open, gzip)
    const known = away() === undefined ? kept.get(key) : undefined
    if (known !== undefined) return known
    let body = making.get(key)
    if (body === undefined) making.set(key, (body = makeAndKeep(key, { question, open, gzip, share })))
    return body
  }
}

function keyOf(question: Question, { revision, tag }: OpenRegistry, gzip: boolean): string {
  return `${gzip ? 'gzip' : 'plain'} ${revision}.${tag} ${JSON.stringify(question)}`
}
