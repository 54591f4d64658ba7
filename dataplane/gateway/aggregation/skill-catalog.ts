import type { GatewayConfig } from '../../config/gateway.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendItem } from '../backends/lists/list-page.ts'
import {
  declaredSkills,
  entryText,
  hasSkillScheme,
  innermost,
  isCanonicalSkill,
  MANIFEST,
  SKILL_SCHEME,
  SKILLS_EXTENSION,
  spellingKey,
} from '../mcp/skills.ts'
import type { UriNames } from './uri-names.ts'

export interface ShownSkill {
  readonly backend: string
  /** The URI of its SKILL.md, as clients know it. */
  readonly uri: string
  /** Its entry, JSON text. */
  readonly text: string
}

/** The skills shown at one time. */
export interface SkillCatalog {
  /** The settings of the extension to declare. */
  readonly settings: object
  /** In the order of the configuration. */
  readonly skills: readonly ShownSkill[]
  /** The backends that have skills, by the first segment of their URIs; empty if URIs stay as they are. */
  readonly prefixes: ReadonlyMap<string, BackendSkills>
  readonly folders: ReadonlyMap<string, ShownSkill>
  /** The listed spellings of URIs that have several spellings, by `spellingKey`. */
  readonly spellings: ReadonlyMap<string, string>
  /** Skills that are not shown because another backend already has their URIs. */
  readonly withheld: readonly string[]
  readonly directories: ReadonlySet<string>
}

/** The skills of one backend, with the selection that determines which of its resources are shown. */
export class BackendSkills {
  readonly backend: Backend
  readonly directoryRead: boolean
  /** The configured selection: all, as in a proxy, none, or those of these names. */
  readonly #choice: 'all' | 'none' | ReadonlySet<string>
  /** All listed skills by their folders, each with whether it is shown. */
  readonly #folders = new Map<string, boolean>()

  constructor(backend: Backend, directoryRead: boolean, { aggregation }: Pick<GatewayConfig, 'aggregation'>) {
    const choice = aggregation?.skills?.find(({ workload }) => workload === backend.name)
    this.backend = backend
    this.directoryRead = directoryRead
    this.#choice = choice?.excludeAll === true ? 'none' : choice?.filter === undefined ? 'all' : new Set(choice.filter)
    for (const { skill } of backend.skills)
      if (skill !== undefined) this.#folders.set(skill.root, this.#isChosen(skill.name))
  }

  #isChosen(name: string): boolean {
    return typeof this.#choice === 'string' ? this.areAllShown : this.#choice.has(name)
  }

  /** True if the configuration hides none of its skills. */
  get areAllShown(): boolean {
    return this.#choice === 'all'
  }

  /**
   * Tells whether a resource of the backend is shown, given its own URI. With a filter, only files of shown skills are.
   */
  shows(uri: string): boolean {
    if (this.areAllShown) return true
    const isShown = innermost(this.#folders, uri)
    return isShown ?? !hasSkillScheme(uri)
  }

  get shown(): readonly BackendItem[] {
    return this.backend.skills.filter(({ skill }) => skill !== undefined && this.#folders.get(skill.root) === true)
  }
}

/** Returns the skills of each backend that has any, by its name. */
export const skillsOfBackends = (
  config: Pick<GatewayConfig, 'role' | 'aggregation'>,
  backends: readonly Backend[],
): ReadonlyMap<string, BackendSkills> =>
  new Map(
    backends.flatMap((backend) => {
      const declared = declaredSkills(backend.capabilities)
      // Pins don't cover skills yet, so a backend with enforced pins shows none.
      if (declared === undefined || backend.definitions.areEnforced) return []
      return [[backend.name, new BackendSkills(backend, declared.directoryRead, config)]]
    }),
  )

/** The data from which URIs of skills are assigned. */
interface Addressing {
  readonly role: GatewayConfig['role']
  readonly own: ReadonlyMap<string, BackendSkills>
  readonly names: ReadonlyMap<string, UriNames>
  /**
   * The names of the backends by URI. Files of skills with other schemes than `skill` are added; the first backend
   * keeps a URI.
   */
  readonly uris: Map<string, string>
}

/** Builds the catalog of skills; undefined if no backend has the extension. */
export function buildSkillCatalog(addressing: Addressing): SkillCatalog | undefined {
  const { role, own } = addressing
  if (own.size === 0) return undefined
  const building = { skills: [], folders: new Map(), spellings: new Map(), withheld: [] }
  for (const [backend, { shown }] of own) for (const item of shown) addSkill(backend, item, addressing, building)
  const directories = new Set([...own].flatMap(([name, { directoryRead }]) => (directoryRead ? [name] : [])))
  return {
    ...building,
    settings: directories.size === 0 ? {} : { directoryRead: true },
    prefixes: role === 'proxy' ? new Map() : own,
    directories,
  }
}

interface Building {
  readonly skills: ShownSkill[]
  readonly folders: Map<string, ShownSkill>
  readonly spellings: Map<string, string>
  readonly withheld: string[]
}

function addSkill(
  backend: string,
  item: BackendItem,
  { role, names, uris }: Addressing,
  { skills, folders, spellings, withheld }: Building,
): void {
  const { key, text, skill } = item
  const shown = names.get(backend)?.shown ?? same
  const files = (skill?.files ?? []).map(shown)
  const taken = hasSkillScheme(key) ? undefined : files.find((file) => (uris.get(file) ?? backend) !== backend)
  if (taken !== undefined) {
    withheld.push(`${backend}: the skill ${JSON.stringify(key)} is not shown, ${uris.get(taken)} has its files`)
    return
  }
  for (const file of files) {
    const spelling = spellingKey(file)
    if (spelling !== undefined) spellings.set(spelling, file)
    if (!hasSkillScheme(file)) uris.set(file, backend)
  }
  const uri = shown(key)
  const entry = { backend, uri, text: role === 'proxy' ? text : entryText(item, backend, shown) }
  skills.push(entry)
  folders.set(uri.slice(0, -MANIFEST.length), entry)
}

const same = (uri: string): string => uri

/** Returns the extension as a capability; empty if there are no skills. */
export const skillsExtension = (catalog: SkillCatalog | undefined): object =>
  catalog === undefined ? {} : { [SKILLS_EXTENSION]: catalog.settings }

/** The backend of a resource, and its own URI there. */
export interface Place {
  readonly backend: string
  readonly uri: string
}

/**
 * Finds the backend of a URI with the scheme `skill`. Returns 'nowhere' for a URI that is not served, because of its
 * spelling or a filter, and undefined if its first segment names no backend with skills.
 */
export function findSkillUri({ prefixes, spellings }: SkillCatalog, uri: string): Place | 'nowhere' | undefined {
  if (!isCanonicalSkill(uri)) return 'nowhere'
  const key = spellingKey(uri)
  const spelled = key === undefined ? undefined : spellings.get(key)
  if (spelled !== undefined && spelled !== uri) return 'nowhere'
  if (prefixes.size === 0) return undefined
  const end = uri.indexOf('/', SKILL_SCHEME.length)
  const own = prefixes.get(uri.slice(SKILL_SCHEME.length, end === -1 ? undefined : end))
  if (own === undefined) return undefined
  if (end === -1) return 'nowhere'
  const found = SKILL_SCHEME + uri.slice(end + 1)
  return own.shows(found) ? { backend: own.backend.name, uri: found } : 'nowhere'
}

/** Returns the URI of the nearest SKILL.md above a file, both as clients know them; undefined if there is none. */
export const nearestSkill = (catalog: SkillCatalog | undefined, uri: string): string | undefined =>
  catalog === undefined ? undefined : innermost(catalog.folders, uri)?.uri
