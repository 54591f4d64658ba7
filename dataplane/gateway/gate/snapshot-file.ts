import { createHash, type Hash, randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject } from '../../../crds/settings/json.ts'
import { runInSlices, type Steps } from '../limits/slices.ts'
import { Elements } from '../mcp/json.ts'
import type { Snapshot } from './decision.ts'
import { type GatePage, type KnownClaims, parseGatePage } from './rows.ts'

const FORMAT = 1

/**
 * The last answer of one registry on disk, for a gateway that starts while the registry is unreachable. A small head
 * file names the answer's file by its digest, with the time of confirmation. Both files are replaced atomically.
 */
export class SnapshotFile {
  readonly #folder: string
  readonly #head: string
  readonly #prefix: string
  /** The registry of the snapshot, because a snapshot of another registry must not be used. */
  readonly #source: string
  #written: string | undefined

  /**
   * @param folder the folder of snapshots
   * @param name the registry's name in the configuration
   * @param source the registry's address and its name there
   */
  constructor(folder: string, name: string, source: string) {
    this.#folder = folder
    this.#head = join(folder, `${name}.json`)
    this.#prefix = `${name}@`
    this.#source = source
  }

  /**
   * Reads the snapshot, with the time of its last confirmation in milliseconds since 1970; undefined if it is missing or
   * damaged.
   */
  async read(known: KnownClaims): Promise<{ snapshot: Snapshot; confirmedAt: number } | undefined> {
    try {
      const head: unknown = JSON.parse(await readFile(this.#head, 'utf8'))
      if (!isObject(head)) return undefined
      const { format, source, digest, confirmedAt } = head
      if (format !== FORMAT || source !== this.#source) return undefined
      if (typeof digest !== 'string' || !/^[0-9a-f]{64}$/.test(digest)) return undefined
      if (typeof confirmedAt !== 'number' || !Number.isFinite(confirmedAt)) return undefined
      if (head['check'] !== computeCheck(this.#source, digest, confirmedAt)) return undefined
      const bytes = await readFile(this.#pagesFile(digest))
      if ((await runInSlices(hashBytes(bytes))) !== digest) return undefined
      const snapshot = await runInSlices(readSnapshot(bytes.toString('utf8'), known))
      this.#written = digest
      return { snapshot, confirmedAt: Math.min(confirmedAt, Date.now()) }
    } catch {
      // A file that is missing or unreadable means that there is no snapshot.
      return undefined
    }
  }

  /** Writes a snapshot that was just confirmed. Throws if the folder is not writable. */
  async write(pages: readonly string[], confirmedAt: number): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    const file = join(this.#folder, `${this.#prefix}${randomUUID()}.new`)
    try {
      const digest = await writePages(file, pages)
      if (digest !== this.#written) await rename(file, this.#pagesFile(digest))
      await this.#writeHead(digest, confirmedAt)
      if (digest !== this.#written) await this.#removeOthers(digest)
      this.#written = digest
    } finally {
      await rm(file, { force: true })
    }
  }

  /** Stores that the registry has confirmed the written snapshot. */
  async confirm(confirmedAt: number): Promise<void> {
    if (this.#written !== undefined) await this.#writeHead(this.#written, confirmedAt)
  }

  #writeHead(digest: string, confirmedAt: number): Promise<void> {
    const source = this.#source
    const check = computeCheck(source, digest, confirmedAt)
    return replace(this.#head, JSON.stringify({ format: FORMAT, source, digest, confirmedAt, check }))
  }

  async #removeOthers(digest: string): Promise<void> {
    for (const file of await readdir(this.#folder))
      if (file.startsWith(this.#prefix) && join(this.#folder, file) !== this.#pagesFile(digest))
        await rm(join(this.#folder, file), { force: true })
  }

  #pagesFile(digest: string): string {
    return join(this.#folder, `${this.#prefix}${digest}.json`)
  }
}

const computeCheck = (source: string, digest: string, confirmedAt: number): string =>
  createHash('sha256')
    .update(JSON.stringify([source, digest, confirmedAt]))
    .digest('base64url')

async function replace(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 })
  await rename(`${file}.new`, file)
}

/** Writes the texts of pages as a JSON list. Returns the digest of the file. */
async function writePages(file: string, pages: readonly string[]): Promise<string> {
  const digest = createHash('sha256')
  const handle = await open(file, 'w', 0o600)
  try {
    for (const [index, text] of pages.entries()) {
      const piece = Buffer.from(
        `${index === 0 ? '[' : ','}${JSON.stringify(text)}${index === pages.length - 1 ? ']' : ''}`,
      )
      await runInSlices(hashInto(digest, piece))
      await handle.writeFile(piece)
    }
  } finally {
    await handle.close()
  }
  return digest.digest('hex')
}

/** The bytes that are hashed in one step. */
const STEP_BYTES = 256 * 1024

function* hashInto(digest: Hash, bytes: Buffer): Steps<void> {
  for (let at = 0; at < bytes.length; at += STEP_BYTES) {
    digest.update(bytes.subarray(at, at + STEP_BYTES))
    yield
  }
}

function* hashBytes(bytes: Buffer): Steps<string> {
  const digest = createHash('sha256')
  yield* hashInto(digest, bytes)
  return digest.digest('hex')
}

/** Joins the pages of a registry, the first page first. */
export function joinPages([first, ...others]: readonly [GatePage, ...GatePage[]]): Snapshot {
  const { revision, mode, claims, closedWithoutClaims } = first
  return { revision, mode, claims, closedWithoutClaims, rows: [first, ...others].flatMap(({ rows }) => rows) }
}

function* readSnapshot(list: string, known: KnownClaims): Steps<Snapshot> {
  const pages: GatePage[] = []
  const texts = new Elements(list, 0)
  while (texts.next()) {
    pages.push(yield* parseGatePage(JSON.parse(texts.value) as string, known))
    yield
  }
  const [first, ...others] = pages
  if (first === undefined) throw new Error('there is no page')
  return joinPages([first, ...others])
}
