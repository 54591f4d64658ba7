import { comparableUrl, type Image, isSameImage, parseImage } from './location.ts'
import type { Row } from './rows.ts'

/** A backend as the catalog may know it. */
export interface GateMember {
  /** The name of the backend. */
  readonly backend: string
  /** The name of its object. */
  readonly name?: string | undefined
  readonly uid?: string | undefined
  /** The entry that the object names by its annotation, and the version of it. */
  readonly server?: string | undefined
  readonly version?: string | undefined
  /** Where the server is, for those that are somewhere else. */
  readonly url?: string | undefined
  /** The image, for those that run here. */
  readonly image?: string | undefined
}

/** Why a member is not in the catalog. */
export type NotApproved = 'NotInCatalog' | 'LocationMismatch' | 'EntryDeleted'

/** The rows of the catalog that a member is. */
export interface Match {
  /** The rows that are in force. */
  readonly rows: readonly Row[]
  /** Undefined if there are such rows. */
  readonly reason: NotApproved | undefined
}

/** How a member is found: by what it is and where, or by a name alone. */
export type MatchBy = 'identity' | 'name'

const isInForce = ({ status }: Row): boolean => status !== 'deleted'

/** A member, and the rows that have something of it. */
class Candidate {
  readonly byUid = new Set<Row>()
  readonly named = new Set<Row>()
  readonly located = new Set<Row>()
  readonly #hasEntry: boolean

  constructor(hasEntry: boolean) {
    this.#hasEntry = hasEntry
  }

  match(by: MatchBy): Match {
    // An object that the catalog lists from the cluster itself needs no other sign.
    const own = [...this.byUid].filter(isInForce)
    if (own.length > 0) return { rows: own, reason: undefined }
    const found = this.#found(by)
    const rows = found.filter(isInForce)
    return rows.length > 0 ? { rows, reason: undefined } : { rows, reason: this.#reason(found, by) }
  }

  #found(by: MatchBy): readonly Row[] {
    if (by === 'name') return [...this.named]
    return this.#hasEntry ? [...this.named].filter((row) => this.located.has(row)) : [...this.located]
  }

  #reason(found: readonly Row[], by: MatchBy): NotApproved {
    if (found.length > 0 || this.byUid.size > 0) return 'EntryDeleted'
    if (by === 'name' || !this.#hasEntry || this.named.size === 0) return 'NotInCatalog'
    return [...this.named].some(isInForce) ? 'LocationMismatch' : 'EntryDeleted'
  }
}

/** Values by a text, several for one. */
class Index<V> {
  readonly #values = new Map<string, V[]>()

  add(key: string | undefined, value: V): void {
    if (key === undefined) return
    const there = this.#values.get(key)
    if (there === undefined) this.#values.set(key, [value])
    else there.push(value)
  }

  get(key: string | undefined): readonly V[] {
    return (key === undefined ? undefined : this.#values.get(key)) ?? []
  }
}

interface Named {
  readonly candidate: Candidate
  readonly version: string | undefined
}

interface Running {
  readonly candidate: Candidate
  readonly image: Image
}

/** The members, looked up by what a row says. */
class MemberIndex {
  readonly #uids = new Index<Candidate>()
  readonly #names = new Index<Named>()
  readonly #shortNames = new Index<Candidate>()
  readonly #urls = new Index<Candidate>()
  readonly #images = new Index<Running>()

  add({ backend, name, uid, server, version, url, image }: GateMember): Candidate {
    const candidate = new Candidate(server !== undefined)
    this.#uids.add(uid, candidate)
    if (server === undefined) this.#shortNames.add(name ?? backend, candidate)
    else this.#names.add(server, { candidate, version })
    if (url !== undefined) this.#urls.add(comparableUrl(url), candidate)
    const running = image === undefined ? undefined : parseImage(image)
    if (running !== undefined) this.#images.add(running.repository, { candidate, image: running })
    return candidate
  }

  take(row: Row): void {
    for (const candidate of this.#uids.get(row.uid)) candidate.byUid.add(row)
    for (const candidate of this.#namedBy(row)) candidate.named.add(row)
    for (const candidate of this.#locatedBy(row)) candidate.located.add(row)
  }

  *#namedBy({ name, version }: Row): Generator<Candidate> {
    for (const named of this.#names.get(name))
      if (named.version === undefined || named.version === version) yield named.candidate
    // A name of the catalog has a namespace, which the name of an object lacks.
    yield* this.#shortNames.get(name.slice(name.indexOf('/') + 1))
  }

  *#locatedBy({ urls, images }: Row): Generator<Candidate> {
    for (const url of urls) yield* this.#urls.get(url)
    for (const approved of images)
      for (const { candidate, image } of this.#images.get(approved.repository))
        if (isSameImage(approved, image)) yield candidate
  }
}

/**
 * Finds the rows that each member is, in the order of the members. The work grows with the rows alone: members are
 * looked up by what a row says.
 */
export function matchMembers(members: readonly GateMember[], rows: Iterable<Row>, by: MatchBy): readonly Match[] {
  const index = new MemberIndex()
  const candidates = members.map((member) => index.add(member))
  for (const row of rows) index.take(row)
  return candidates.map((candidate) => candidate.match(by))
}
