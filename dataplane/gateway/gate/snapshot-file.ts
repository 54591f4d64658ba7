import { createHash, hash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject } from '../../../crds/settings/json.ts'
import type { Snapshot } from './decision.ts'
import { type GatePage, type KnownClaims, readGatePage } from './rows.ts'

/** A snapshot, and when the registry last confirmed it: milliseconds since 1970. */
export interface KeptSnapshot {
  readonly snapshot: Snapshot
  readonly confirmedAt: number
}

const FORMAT = 1

/**
 * The last answer of one registry on disk, so that a gateway that starts while the registry is away serves what was
 * approved. The answers stand in a file named by their digest. A small file beside it names that one and tells when
 * they were confirmed. Each is replaced as a whole, so that a process that ends at any moment leaves a whole snapshot.
 */
export class SnapshotFile {
  readonly #folder: string
  readonly #head: string
  readonly #prefix: string
  /** What the snapshot belongs to: another registry's must not be used. */
  readonly #source: string
  #written: string | undefined

  /**
   * @param folder where snapshots are kept
   * @param name the name of the registry in the configuration: a DNS label
   * @param source what it is read from: its address and its name there
   */
  constructor(folder: string, name: string, source: string) {
    this.#folder = folder
    this.#head = join(folder, `${name}.json`)
    this.#prefix = `${name}@`
    this.#source = source
  }

  /** Reads the snapshot; undefined if there is none, or if it is damaged. */
  async read(known: KnownClaims): Promise<KeptSnapshot | undefined> {
    try {
      const head: unknown = JSON.parse(await readFile(this.#head, 'utf8'))
      if (!isObject(head)) return undefined
      const { format, source, digest, confirmedAt } = head
      if (format !== FORMAT || source !== this.#source) return undefined
      if (typeof digest !== 'string' || !/^[0-9a-f]{64}$/.test(digest)) return undefined
      if (typeof confirmedAt !== 'number' || !Number.isFinite(confirmedAt)) return undefined
      if (head['check'] !== checkOf(this.#source, digest, confirmedAt)) return undefined
      const text = await readFile(this.#pagesFile(digest), 'utf8')
      if (hash('sha256', text) !== digest) return undefined
      const pages = JSON.parse(text) as string[]
      this.#written = digest
      return { snapshot: snapshotOf(pages, known), confirmedAt: Math.min(confirmedAt, Date.now()) }
    } catch {
      // A file that is not there or can't be read is no snapshot.
      return undefined
    }
  }

  /** Writes what was confirmed now. Throws if the folder can't be written in. */
  async write(pages: readonly string[], confirmedAt: number): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    const text = JSON.stringify(pages)
    const digest = hash('sha256', text)
    if (digest !== this.#written) await replace(this.#pagesFile(digest), text)
    await this.#writeHead(digest, confirmedAt)
    if (digest !== this.#written) await this.#removeOthers(digest)
    this.#written = digest
  }

  /** Records that the registry has confirmed the snapshot that was written. */
  async confirm(confirmedAt: number): Promise<void> {
    if (this.#written !== undefined) await this.#writeHead(this.#written, confirmedAt)
  }

  #writeHead(digest: string, confirmedAt: number): Promise<void> {
    const source = this.#source
    const check = checkOf(source, digest, confirmedAt)
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

const checkOf = (source: string, digest: string, confirmedAt: number): string =>
  createHash('sha256')
    .update(JSON.stringify([source, digest, confirmedAt]))
    .digest('base64url')

async function replace(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 })
  await rename(`${file}.new`, file)
}

/** Joins the pages of a registry, the first page first. */
export function joinPages([first, ...others]: readonly [GatePage, ...GatePage[]]): Snapshot {
  const { revision, mode, claims, closedWithoutClaims } = first
  return { revision, mode, claims, closedWithoutClaims, rows: [first, ...others].flatMap(({ rows }) => rows) }
}

function snapshotOf(texts: readonly string[], known: KnownClaims): Snapshot {
  const [first, ...others] = texts.map((text) => readGatePage(JSON.parse(text), known))
  if (first === undefined) throw new Error('there is no page')
  return joinPages([first, ...others])
}
