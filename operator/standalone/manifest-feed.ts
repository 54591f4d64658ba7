import {
  checkManifests,
  type ManifestFinding,
  type ManifestWatch,
  objectKey,
  readManifests,
  watchManifests,
} from '../cluster/files/index.ts'
import { type Accepted, accept, coreKey, nothingAccepted } from './accepted.ts'

/** An object is gone when two readings this far apart lack it: writers truncate before they write (milliseconds). */
const GONE_AFTER_MS = 250

interface FeedOptions {
  /** Files and folders of manifests. */
  readonly paths: readonly string[]
  readonly group: string | undefined
  /** Called after each reading that was taken over. */
  readonly onChange: () => void
}

function losesAny(before: Accepted, now: Accepted): boolean {
  const lacks = <T>(old: readonly T[], current: readonly T[], keyOf: (item: T) => string) => {
    const present = new Set(current.map(keyOf))
    return old.some((item) => !present.has(keyOf(item)))
  }
  return (
    lacks(before.manifests, now.manifests, ({ id }) => objectKey(id)) ||
    lacks(before.secrets, now.secrets, coreKey) ||
    lacks(before.configMaps, now.configMaps, coreKey)
  )
}

/** The manifests of a run: what is in the files now, and of what is broken there the last good version. */
export class ManifestFeed {
  readonly #options: FeedOptions
  #group = ''
  #accepted: Accepted = nothingAccepted
  #findings: readonly ManifestFinding[] = []
  #watch: ManifestWatch | undefined
  #secondLook: NodeJS.Timeout | undefined

  constructor(options: FeedOptions) {
    this.#options = options
  }

  /** API group of our kinds in these files. */
  get group(): string {
    return this.#group
  }

  get accepted(): Accepted {
    return this.#accepted
  }

  get findings(): readonly ManifestFinding[] {
    return this.#findings
  }

  /** Reads the files for the first time, and again whenever they change. */
  start(): void {
    this.#watch = watchManifests(this.#options.paths, () => this.#read())
    this.#read()
  }

  stop(): void {
    this.#watch?.close()
    clearTimeout(this.#secondLook)
  }

  #read(isSecondLook = false): void {
    const { paths, group, onChange } = this.#options
    const set = readManifests(paths, group)
    const { valid, findings } = checkManifests(set)
    const now = { manifests: valid, secrets: set.secrets, configMaps: set.configMaps }
    const all = [...set.findings, ...findings]
    const accepted = accept(this.#accepted, now, all)
    if (!isSecondLook && losesAny(this.#accepted, accepted)) {
      this.#secondLook ??= setTimeout(() => this.#read(true), GONE_AFTER_MS)
      return
    }
    clearTimeout(this.#secondLook)
    this.#secondLook = undefined
    this.#group = set.group
    this.#findings = all
    this.#accepted = accepted
    onChange()
  }
}
