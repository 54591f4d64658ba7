import { atOnce, type Steps } from '../limits/turns.ts'
import { comparableUrl, type Image, isSameImage, parseImage } from './location.ts'
import type { Row } from './rows.ts'

export interface GateMember {
  readonly backend: string
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

export type NotApproved = 'NotInCatalog' | 'LocationMismatch' | 'EntryDeleted'

/** The rows of the catalog that a member is. */
export interface Match {
  /** The rows that are in force: the first of each status and claims. */
  readonly rows: readonly Row[]
  /** Undefined if there are such rows. */
  readonly reason: NotApproved | undefined
}

/** The way to find a member: by its identity and location, or by a name alone. */
export type MatchBy = 'identity' | 'name'

const isInForce = ({ status }: Row): boolean => status !== 'deleted'

/** Rows of which the first of each status and claims is kept: others of them say nothing more about a member. */
class Kinds {
  readonly rows: Row[] = []
  readonly #seen: Readonly<Record<Row['status'], Set<Row['claims']>>> = {
    active: new Set(),
    deprecated: new Set(),
    deleted: new Set(),
  }

  add(row: Row): void {
    const seen = this.#seen[row.status]
    if (seen.has(row.claims)) return
    seen.add(row.claims)
    this.rows.push(row)
  }

  get inForce(): readonly Row[] {
    return this.rows.filter(isInForce)
  }
}

type Sign = 'uid' | 'name' | 'location'

/** A member, and what rows have of it. Rows are marked one after another. */
class Candidate {
  readonly #by: MatchBy
  readonly #hasEntry: boolean
  /** The rows with its uid, and those that are it by their other signs. */
  readonly #own = new Kinds()
  readonly #found = new Kinds()
  #isNamed = false
  #isNamedInForce = false
  /** The row that is being marked, and whether it has the name and the location. */
  #row: Row | undefined
  #hasName = false
  #hasLocation = false

  constructor(by: MatchBy, hasEntry: boolean) {
    this.#by = by
    this.#hasEntry = hasEntry
  }

  mark(row: Row, sign: Sign): void {
    if (row !== this.#row) {
      this.#row = row
      this.#hasName = false
      this.#hasLocation = false
    }
    if (sign === 'uid') {
      this.#own.add(row)
      return
    }
    if (sign === 'name') {
      this.#hasName = true
      this.#isNamed = true
      this.#isNamedInForce ||= isInForce(row)
    } else this.#hasLocation = true
    const isIt = this.#by === 'name' ? this.#hasName : this.#hasLocation && (this.#hasName || !this.#hasEntry)
    if (isIt) this.#found.add(row)
  }

  get match(): Match {
    // An object that the catalog lists from the cluster itself needs no other sign.
    const own = this.#own.inForce
    if (own.length > 0) return { rows: own, reason: undefined }
    const rows = this.#found.inForce
    return rows.length > 0 ? { rows, reason: undefined } : { rows, reason: this.#reason() }
  }

  #reason(): NotApproved {
    if (this.#found.rows.length > 0 || this.#own.rows.length > 0) return 'EntryDeleted'
    if (this.#by === 'name' || !this.#hasEntry || !this.#isNamed) return 'NotInCatalog'
    return this.#isNamedInForce ? 'LocationMismatch' : 'EntryDeleted'
  }
}

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

class MemberIndex {
  readonly #by: MatchBy
  readonly #uids = new Index<Candidate>()
  readonly #names = new Index<Named>()
  readonly #shortNames = new Index<Candidate>()
  readonly #urls = new Index<Candidate>()
  readonly #images = new Index<Running>()

  constructor(by: MatchBy) {
    this.#by = by
  }

  add({ backend, name, uid, server, version, url, image }: GateMember): Candidate {
    const candidate = new Candidate(this.#by, server !== undefined)
    this.#uids.add(uid, candidate)
    if (server === undefined) this.#shortNames.add(name ?? backend, candidate)
    else this.#names.add(server, { candidate, version })
    if (url !== undefined) this.#urls.add(comparableUrl(url), candidate)
    const running = image === undefined ? undefined : parseImage(image)
    if (running !== undefined) this.#images.add(running.repository, { candidate, image: running })
    return candidate
  }

  take(row: Row): void {
    for (const candidate of this.#uids.get(row.uid)) candidate.mark(row, 'uid')
    for (const candidate of this.#namedBy(row)) candidate.mark(row, 'name')
    for (const candidate of this.#locatedBy(row)) candidate.mark(row, 'location')
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

/** The most rows that are looked at in one step. */
const STEP = 64

/** Finds the rows that each member is, in steps. Members are looked up, so the work grows with the rows alone. */
export function* matching(members: readonly GateMember[], rows: readonly Row[], by: MatchBy): Steps<readonly Match[]> {
  const index = new MemberIndex(by)
  const candidates = members.map((member) => index.add(member))
  for (const [number, row] of rows.entries()) {
    if (number % STEP === STEP - 1) yield
    index.take(row)
  }
  return candidates.map(({ match }) => match)
}

/** Finds the rows that each member is at once. */
export function matchMembers(members: readonly GateMember[], rows: readonly Row[], by: MatchBy): readonly Match[] {
  return atOnce(matching(members, rows, by))
}
