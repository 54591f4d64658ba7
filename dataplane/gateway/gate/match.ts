import { runWhole, type Steps } from '../limits/slices.ts'
import { comparableUrl, type Image, isSameImage, parseImage } from './location.ts'
import type { Row } from './rows.ts'

export interface GateMember {
  readonly backend: string
  readonly name?: string | undefined
  readonly uid?: string | undefined
  /** The entry, and its version, that the object names in annotations. */
  readonly server?: string | undefined
  readonly version?: string | undefined
  /** The URL of a server outside of the cluster. */
  readonly url?: string | undefined
  /** The image of a server that runs here. */
  readonly image?: string | undefined
}

export type NotApproved = 'NotInCatalog' | 'LocationMismatch' | 'EntryDeleted'

export interface Match {
  /** The valid rows: the first one for each status and claims. */
  readonly rows: readonly Row[]
  readonly reason: NotApproved | undefined
}

/** The criterion: identity and location, or only a name. */
export type MatchBy = 'identity' | 'name'

const isInForce = ({ status }: Row): boolean => status !== 'deleted'

/** Collects the first row for each status and claims. Further rows add nothing for a member. */
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

/** A member, and the rows that match it. Rows are tested one after another. */
class Candidate {
  readonly #by: MatchBy
  readonly #hasEntry: boolean
  /** The rows with its uid, and those that match by other criteria. */
  readonly #own = new Kinds()
  readonly #found = new Kinds()
  #isNamed = false
  #isNamedInForce = false
  /** The row that is being tested, and whether its name and location match. */
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
    // An object that the registry lists from the cluster itself needs no other criterion.
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
    // Names in the catalog have a namespace, which names of objects lack.
    yield* this.#shortNames.get(name.slice(name.indexOf('/') + 1))
  }

  *#locatedBy({ urls, images }: Row): Generator<Candidate> {
    for (const url of urls) yield* this.#urls.get(url)
    for (const approved of images)
      for (const { candidate, image } of this.#images.get(approved.repository))
        if (isSameImage(approved, image)) yield candidate
  }
}

/** The most rows that are tested in one step. */
const STEP = 64

/** Finds the rows that match each member, in steps. Members are indexed, so the work grows only with the rows. */
export function* findMatches(
  members: readonly GateMember[],
  rows: readonly Row[],
  by: MatchBy,
): Steps<readonly Match[]> {
  const index = new MemberIndex(by)
  const candidates = members.map((member) => index.add(member))
  for (const [number, row] of rows.entries()) {
    if (number % STEP === STEP - 1) yield
    index.take(row)
  }
  return candidates.map(({ match }) => match)
}

/** Finds the rows that match each member, without pauses. */
export function matchMembers(members: readonly GateMember[], rows: readonly Row[], by: MatchBy): readonly Match[] {
  return runWhole(findMatches(members, rows, by))
}
