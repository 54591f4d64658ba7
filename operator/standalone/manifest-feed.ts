import {
  type CoreObject,
  checkManifests,
  type Manifest,
  type ManifestFinding,
  type ManifestWatch,
  objectKey,
  readManifests,
  watchManifests,
} from '../cluster/files/index.ts'

/** Milliseconds between two readings that must both lack an object: writers truncate before they write. */
const GONE_AFTER_MS = 250

interface FeedOptions {
  readonly paths: readonly string[]
  readonly group: string | undefined
  /** Changes the valid manifests before they are used. Absent: none is changed. */
  readonly edit?: ((manifests: readonly Manifest[], group: string) => readonly Manifest[]) | undefined
  readonly onChange: () => void
}

/** The objects that a run uses: the last good version of each. */
export interface Accepted {
  readonly manifests: readonly Manifest[]
  readonly secrets: readonly CoreObject[]
  readonly configMaps: readonly CoreObject[]
}

export const nothingAccepted: Accepted = { manifests: [], secrets: [], configMaps: [] }

function losesAny(before: Accepted, now: Accepted): boolean {
  const lacks = <T>(old: readonly T[], current: readonly T[], readKey: (item: T) => string) => {
    const present = new Set(current.map(readKey))
    return old.some((item) => !present.has(readKey(item)))
  }
  return (
    lacks(before.manifests, now.manifests, ({ id }) => objectKey(id)) ||
    lacks(before.secrets, now.secrets, formatCoreKey) ||
    lacks(before.configMaps, now.configMaps, formatCoreKey)
  )
}

/** The manifests of a run: the current files, and the last good version of objects that are broken there. */
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

  /** The API group of our kinds in these files. */
  get group(): string {
    return this.#group
  }

  get accepted(): Accepted {
    return this.#accepted
  }

  get findings(): readonly ManifestFinding[] {
    return this.#findings
  }

  start(): void {
    this.#watch = watchManifests(this.#options.paths, () => this.#read())
    this.#read()
  }

  stop(): void {
    this.#watch?.close()
    clearTimeout(this.#secondLook)
  }

  #read(isSecondLook = false): void {
    const { paths, group, edit, onChange } = this.#options
    const set = readManifests(paths, group)
    const { valid, findings } = checkManifests(set)
    const now = { manifests: edit?.(valid, set.group) ?? valid, secrets: set.secrets, configMaps: set.configMaps }
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

const formatCoreKey = ({ namespace, name }: CoreObject) => `${namespace}/${name}`

/** Returns the new objects, and the old ones that a broken file may only seem to have lost. */
function keep<T extends { readonly file: string }>(
  before: readonly T[],
  now: readonly T[],
  readKey: (item: T) => string,
  isBroken: (file: string) => boolean,
): readonly T[] {
  const present = new Set(now.map(readKey))
  return [...now, ...before.filter((item) => !present.has(readKey(item)) && isBroken(item.file))]
}

/**
 * Accepts a reading as an API server would: the version before an invalid object stays, and an object is gone only when
 * its file has no errors.
 */
export function accept(before: Accepted, now: Accepted, findings: readonly ManifestFinding[]): Accepted {
  const broken = new Set(findings.filter(({ severity }) => severity === 'error').map(({ file }) => file))
  const missing = findings.filter(({ reason }) => reason === 'FileMissing').map(({ file }) => `${file}/`)
  const isBroken = (file: string) => broken.has(file) || missing.some((folder) => file.startsWith(folder))
  return {
    manifests: keep(before.manifests, now.manifests, ({ id }) => objectKey(id), isBroken),
    secrets: keep(before.secrets, now.secrets, formatCoreKey, isBroken),
    configMaps: keep(before.configMaps, now.configMaps, formatCoreKey, isBroken),
  }
}
