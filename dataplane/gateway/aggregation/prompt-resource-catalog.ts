import { isObject, memoize } from '../../../crds/settings/json.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { type ItemKind, listForms } from '../backends/lists/list-kind.ts'
import { APPS_EXTENSION, WITH_APPS } from '../mcp/apps.ts'
import { encodeHeaderValue, hasTasks, SESSION_TASKS_EXTENSION, TASKS_EXTENSION } from '../mcp/eras.ts'
import { editObject } from '../mcp/json.ts'
import { hasSkillScheme, innermost, isCanonicalSkill, SKILL_SCHEME } from '../mcp/skills.ts'
import { fitName, otherName, type Route, readShape } from './shape.ts'
import {
  type BackendSkills,
  buildSkillCatalog,
  findSkillUri,
  type Place,
  type SkillCatalog,
  skillsExtension,
  skillsOfBackends,
} from './skill-catalog.ts'
import { PAGE_SCHEME, UriNames } from './uri-names.ts'

/** The result of one list, serialized, for each era. */
interface SerializedList {
  readonly legacy: Buffer
  readonly modern: Buffer
}

/** The prompts and resources shown at one time, and the routes of requests for them. */
export interface PromptResourceCatalog {
  /** The capabilities to declare: those of the backends, and those that the gateway provides itself. */
  readonly capabilities: Readonly<Record<string, object>>
  /** The instructions for clients; undefined if no backend has any. */
  readonly instructions: string | undefined
  /** The extensions that are declared in the modern era only. They replace capabilities of the same name. */
  readonly extensions: object
  /** The capability that is declared to clients of 2025-11-25 only: `tasks`, or nothing. */
  readonly tasks: object
  readonly lists: Readonly<Record<ItemKind, SerializedList>>
  readonly prompts: ReadonlyMap<string, Route>
  /** The names of the backends that have resources, in the order of the configuration. */
  readonly holders: readonly string[]
  /** The holders whose unlisted resources can't be read, because only listed ones can be approved. */
  readonly closed: ReadonlySet<string>
  /** The names of the backends by listed URI or URI template. */
  readonly uris: ReadonlyMap<string, string>
  /** The withheld URIs and URI templates, by the names of their backends. */
  readonly withheld: ReadonlyMap<string, ReadonlySet<string>>
  readonly templates: readonly (UriPattern & { readonly backend: string })[]
  /** The skills; undefined if no backend has the extension. */
  readonly skills: SkillCatalog | undefined
  /** The mapping of URIs for backends whose resources have other URIs for clients; undefined if there are none. */
  readonly names: ReadonlyMap<string, UriNames> | undefined
}

/** Matches the URIs that a URI template may produce (RFC 6570). */
interface UriPattern {
  /**
   * The number of characters that the template fixes. Of several matching templates the one that fixes most applies.
   */
  readonly fixed: number
  matches(uri: string): boolean
}

/**
 * Builds the catalog of prompts and resources. Prompts get the same prefix as tools. URIs stay unchanged, because
 * results contain them too. If two backends have the same URI, it belongs to the first in the configured order. Only
 * URIs of skills, and clashing URIs of app pages, get the backend's name.
 */
export function buildPromptResourceCatalog(
  config: Pick<GatewayConfig, 'role' | 'aggregation'>,
  backends: readonly Backend[],
): PromptResourceCatalog {
  const prompts = new Map<string, Route>()
  const taken = new Set<string>()
  const promptTexts = backends.flatMap((backend) => {
    const { prefix } = readShape(config, backend.name)
    return addPrompts(backend, (key) => (config.role === 'proxy' ? key : fitName(prefix + key)), prompts, taken)
  })
  const uris = new Map<string, string>()
  const withheld = new Map(backends.map((backend) => [backend.name, withheldUris(backend)] as const))
  const ownSkills = skillsOfBackends(config, backends)
  const names = new Map(
    config.role === 'proxy'
      ? []
      : backends.map(({ name }) => [name, new UriNames(ownSkills.has(name) ? name : undefined)]),
  )
  const named: Named = { uris, names, skills: ownSkills }
  const templates = addressItems(backends, 'templates', named)
  const resources = addressItems(backends, 'resources', named)
  const skills = buildSkillCatalog({ role: config.role, own: ownSkills, names, uris })
  const needed = [...names].filter(([, { areNeeded }]) => areNeeded)
  const shown = backends.filter(({ name }) => !readShape(config, name).hidden)
  return {
    capabilities: { ...collectCapabilities(backends), ...declareExtensions(collectExtensions(shown, skills)) },
    instructions: joinInstructions(backends),
    extensions: collectModernExtensions(shown, skills),
    tasks: collectSessionTasks(shown),
    lists: {
      prompts: serializeItems('prompts', promptTexts),
      resources: serializeItems('resources', resources),
      templates: serializeItems('templates', templates),
      skills: serializeItems('skills', skills?.skills.map(({ text }) => text) ?? []),
    },
    prompts,
    holders: backends.filter(({ capabilities }) => isObject(capabilities['resources'])).map(({ name }) => name),
    closed: new Set(backends.filter(({ definitions }) => !definitions.showsUnlistedResources).map(({ name }) => name)),
    uris,
    withheld,
    // A second backend's equal template is not shown, but that backend may also have URIs that match it.
    templates: backends
      .flatMap(({ name, templates: own }) =>
        own.map(({ key }) => ({ backend: name, ...uriPattern(names.get(name)?.shown(key) ?? key) })),
      )
      .sort((a, b) => b.fixed - a.fixed),
    skills,
    names: needed.length === 0 ? undefined : new Map(needed),
  }
}

/** Adds the routes of a backend's prompts by shown name. Returns the texts to show. */
function addPrompts(
  backend: Backend,
  nameOf: (key: string) => string,
  prompts: Map<string, Route>,
  taken: Set<string>,
): string[] {
  const texts: string[] = []
  const seen = new Set<string>()
  for (const { key, text } of backend.prompts) {
    if (seen.has(key)) continue
    seen.add(key)
    const own = nameOf(key)
    const isTaken = (name: string): boolean => prompts.has(name) || taken.has(name)
    const name = isTaken(own) ? otherName(own, `${backend.name}\0${key}`) : own
    if (isTaken(name)) continue
    const renamed = name !== key
    prompts.set(name, {
      backend: backend.name,
      tool: key,
      rename: renamed ? JSON.stringify(key) : undefined,
      nameHeader: encodeHeaderValue(key),
      paramHeaders: [],
    })
    texts.push(renamed ? editObject(text, { name: JSON.stringify(name) }) : text)
  }
  // An approved prompt that has changed keeps its name reserved.
  for (const key of backend.withheld('prompts', 'pinned')) if (!seen.has(key)) taken.add(nameOf(key))
  return texts
}

/** Serializes a list for each era at the first request, because a long list takes long. */
function serializeItems(kind: ItemKind, texts: readonly string[]): SerializedList {
  const list = () => `"${listForms[kind].member}":[${texts.join(',')}]`
  let legacy: Buffer | undefined
  let modern: Buffer | undefined
  return {
    get legacy() {
      return (legacy ??= Buffer.from(`{${list()}}`))
    },
    get modern() {
      return (modern ??= Buffer.from(`{"resultType":"complete","ttlMs":0,"cacheScope":"private",${list()}}`))
    },
  }
}

function collectCapabilities(backends: readonly Backend[]): Record<string, object> {
  const have = (name: string) => backends.some(({ capabilities }) => isObject(capabilities[name]))
  return {
    tools: { listChanged: true },
    ...(have('prompts') ? { prompts: { listChanged: true } } : {}),
    ...(have('resources') ? { resources: { listChanged: true, subscribe: true } } : {}),
    ...(have('completions') ? { completions: {} } : {}),
    ...(have('logging') ? { logging: {} } : {}),
  }
}

/** The longest instructions of one backend among several, in characters. */
const LONGEST_INSTRUCTIONS = 4096

/** Returns the instructions: of one backend unchanged, of several each under the backend's name. */
export function joinInstructions(backends: readonly Backend[]): string | undefined {
  if (backends.length === 1) return backends[0]?.instructions
  const parts = backends.flatMap(({ name, instructions }) =>
    instructions === undefined ? [] : [`# ${name}\n\n${instructions.slice(0, LONGEST_INSTRUCTIONS)}`],
  )
  return parts.length === 0 ? undefined : parts.join('\n\n')
}

/**
 * Finds the backend of a resource by the URI that clients know; undefined if no backend is known to have it, or it is
 * withheld.
 */
export function findPlace(catalog: PromptResourceCatalog, uri: string): Place | undefined {
  const { uris, holders, names, skills } = catalog
  const listed = uris.get(uri)
  if (listed === undefined && skills !== undefined && hasSkillScheme(uri)) {
    const found = findSkillUri(skills, uri)
    if (found === 'nowhere') return undefined
    if (found !== undefined) return found
    if (skills.prefixes.size > 0 && holders.every((name) => skills.prefixes.has(name))) return undefined
  }
  const backend = listed ?? unlistedHolder(catalog, uri)
  if (backend === undefined) return undefined
  const own = names?.get(backend)?.own(uri) ?? uri
  return isWithheld(catalog, backend, own) || isHidden(skills, backend, own) ? undefined : { backend, uri: own }
}

/** Tells whether a filter of skills hides a resource, given the backend's own URI. */
const isHidden = (skills: SkillCatalog | undefined, backend: string, own: string): boolean =>
  skills?.prefixes.get(backend)?.shows(own) === false && !hasSkillScheme(own)

function unlistedHolder(catalog: PromptResourceCatalog, uri: string): string | undefined {
  const { templates, holders, skills, closed } = catalog
  const [only] = holders
  // A resource may exist without being listed. With a single backend it can only belong to that backend.
  if (holders.length === 1 && only !== undefined && !closed.has(only)) return only
  const skill = skills === undefined ? undefined : innermost(skills.folders, uri)
  if (skill !== undefined) return skill.backend
  const matching = templates.filter((template) => template.matches(uri) && !isWithheld(catalog, template.backend, uri))
  return nearestHolder(catalog, uri, matching)
}

/** Returns the name of the backend of a resource; undefined if it is unknown or the resource is withheld. */
export const findHolder = (catalog: PromptResourceCatalog, uri: string): string | undefined =>
  findPlace(catalog, uri)?.backend

/** Returns the URI by which clients read the page of a backend's tool; undefined if they can't read it there. */
export function findPageUri(catalog: PromptResourceCatalog, backend: string, uri: string): string | undefined {
  const shown = catalog.names?.get(backend)?.shown(uri) ?? uri
  return findHolder(catalog, shown) === backend ? shown : undefined
}

/**
 * Returns the backend whose template most probably produced a URI: of several the one whose listed URIs share the
 * longest path with it, else the one whose template fixes most characters.
 */
function nearestHolder(
  catalog: PromptResourceCatalog,
  uri: string,
  matching: PromptResourceCatalog['templates'],
): string | undefined {
  const [first] = matching
  if (first === undefined || matching.every(({ backend }) => backend === first.backend)) return first?.backend
  const folders = collectFolders(catalog)
  for (const folder of listFolders(uri).reverse()) {
    const holders = folders.get(folder)
    const near = holders && matching.find(({ backend }) => holders.has(backend))
    if (near !== undefined) return near.backend
  }
  return first.backend
}

/**
 * The folders of all listed URIs, with the backends that list something in them. They are computed when first needed.
 */
const collectFolders = memoize(({ uris }: PromptResourceCatalog): ReadonlyMap<string, ReadonlySet<string>> => {
  const folders = new Map<string, Set<string>>()
  for (const [uri, backend] of uris)
    for (const folder of listFolders(uri)) {
      const holders = folders.get(folder)
      if (holders === undefined) folders.set(folder, new Set([backend]))
      else holders.add(backend)
    }
  return folders
})

/** The most folders of one URI that are compared. */
const MOST_FOLDERS = 32

/** Returns the folders that a URI is in, from its authority to the last. */
function listFolders(uri: string): string[] {
  const authority = uri.indexOf('://')
  const folders: string[] = []
  let at = authority === -1 ? -1 : uri.indexOf('/', authority + 3)
  while (at !== -1 && folders.length < MOST_FOLDERS) {
    folders.push(uri.slice(0, at))
    at = uri.indexOf('/', at + 1)
  }
  return folders
}

const isWithheld = ({ withheld }: PromptResourceCatalog, backend: string, uri: string): boolean =>
  withheld.get(backend)?.has(uri) === true

/** Returns the URIs and URI templates of a backend that are withheld, unless they are shown as well. */
function withheldUris(backend: Backend): ReadonlySet<string> {
  const { definitions, resources, templates } = backend
  if (!definitions.areEnforced) return NO_URIS
  const shown = new Set([...resources, ...templates].map(({ key }) => key))
  const withheld = [...backend.withheld('resources', 'all'), ...backend.withheld('templates', 'all')]
  // The content of a page is checked when it is read.
  return new Set(withheld.filter((uri) => !shown.has(uri) && !definitions.isPage(uri)))
}

const NO_URIS: ReadonlySet<string> = new Set()

/** Returns the extensions for both eras: apps, for which the gateway has nothing to do, and skills. */
function collectExtensions(backends: readonly Backend[], skills: SkillCatalog | undefined): object {
  const apps = backends.flatMap(({ capabilities: { extensions }, definitions }) => {
    if (!isObject(extensions) || !isObject(extensions[APPS_EXTENSION])) return []
    // From a backend that needs approval, clients get only a fixed declaration, because it could change its own at any
    // time.
    return [definitions.areEnforced ? WITH_APPS.extensions[APPS_EXTENSION] : extensions[APPS_EXTENSION]]
  })
  return {
    ...(apps.length === 0 ? {} : { [APPS_EXTENSION]: Object.assign({}, ...apps) as object }),
    ...skillsExtension(skills),
  }
}

/** Returns the `extensions` for the modern era, which are more. */
function collectModernExtensions(backends: readonly Backend[], skills: SkillCatalog | undefined): object {
  const hasModernTasks = backends.some(({ era, capabilities }) => era?.era === 'modern' && hasTasks(capabilities))
  return declareExtensions({
    ...collectExtensions(backends, skills),
    ...(hasModernTasks ? { [TASKS_EXTENSION]: {} } : {}),
    ...(backends.some(({ runsTasks }) => runsTasks) ? { [SESSION_TASKS_EXTENSION]: {} } : {}),
  })
}

const declareExtensions = (extensions: object): object => (Object.keys(extensions).length === 0 ? {} : { extensions })

/** Returns the `tasks` capability of 2025-11-25; empty if no backend runs tasks. */
function collectSessionTasks(backends: readonly Backend[]): object {
  const offered = backends
    .filter(({ runsTasks }) => runsTasks)
    .map(({ capabilities }) => capabilities['tasks'] as object)
  if (offered.length === 0) return {}
  const also = (name: string) => (offered.some((tasks) => name in tasks) ? { [name]: {} } : {})
  return { tasks: { ...also('list'), ...also('cancel'), requests: { tools: { call: {} } } } }
}

/**
 * Builds the pattern of a template. Each expression matches any text, because its possible characters depend on its
 * operator and values. The literal parts must occur in order. Matching takes linear time in the URI for each
 * expression.
 */
function uriPattern(template: string): UriPattern {
  const literals = template.split(/\{[^{}]*\}/)
  const [first = '', ...rest] = literals
  const last = rest.pop()
  return {
    fixed: template.length - (template.match(/\{[^{}]*\}/g)?.join('').length ?? 0),
    matches(uri) {
      if (last === undefined) return uri === first
      if (!uri.startsWith(first) || !uri.endsWith(last)) return false
      const end = uri.length - last.length
      let at = first.length
      for (const literal of rest) {
        const found = uri.indexOf(literal, at)
        if (found === -1) return false
        at = found + literal.length
      }
      return at <= end
    },
  }
}

type AddressedKind = Extract<ItemKind, 'resources' | 'templates'>

/** The assigned URIs, and the mapping for each backend. */
interface Named {
  /** The names of the backends by assigned URI or URI template. */
  readonly uris: Map<string, string>
  /** The mapping of each backend's URIs. Empty in a proxy, where URIs stay unchanged. */
  readonly names: ReadonlyMap<string, UriNames>
  readonly skills: ReadonlyMap<string, BackendSkills>
}

/**
 * Assigns URIs to the resources or templates of all backends. Returns the texts to show, in order. A URI that an
 * earlier backend already has is not shown, except for a page of an app, which gets another URI.
 */
function addressItems(backends: readonly Backend[], kind: AddressedKind, named: Named): string[] {
  const { key: member } = listForms[kind]
  return backends.flatMap((backend) => {
    const texts: string[] = []
    for (const { key, text } of backend[kind]) {
      const uri = newUri(backend.name, kind, key, named)
      if (uri !== undefined) texts.push(uri === key ? text : editObject(text, { [member]: JSON.stringify(uri) }))
    }
    for (const uri of backend.withheld(kind, 'pinned')) newUri(backend.name, kind, uri, named)
    if (kind === 'resources') addPages(backend, named)
    return texts
  })
}

/** Returns the URI to assign to an item; undefined if it is not shown. */
function newUri(backend: string, kind: AddressedKind, own: string, named: Named): string | undefined {
  const { uris, names, skills } = named
  const ofSkills = skills.get(backend)
  if (ofSkills !== undefined && !mayBeShown(ofSkills, kind, own)) return undefined
  if (kind === 'resources' && own.startsWith(PAGE_SCHEME)) return addPage(backend, own, named)
  const uri = names.get(backend)?.shown(own) ?? own
  if (uris.has(uri) || belongsToOther(backend, uri, named)) return undefined
  uris.set(uri, backend)
  return uri
}

/** Tells whether a URI belongs to another backend's skills. */
function belongsToOther(backend: string, uri: string, { names, skills }: Named): boolean {
  if (names.size === 0 || !uri.startsWith(SKILL_SCHEME)) return false
  const segment = uri.slice(SKILL_SCHEME.length).split('/', 1)[0] ?? ''
  return segment !== backend && skills.has(segment)
}

/** Tells whether an item of a backend with skills is shown. A template stays while some skill is shown. */
function mayBeShown(skills: BackendSkills, kind: AddressedKind, uri: string): boolean {
  if (!hasSkillScheme(uri)) return skills.shows(uri)
  if (kind === 'templates') return skills.areAllShown || skills.shown.length > 0
  return isCanonicalSkill(uri) && skills.shows(uri)
}

/** Assigns URIs to the pages of tools, which may be unlisted (MCP Apps, resource discovery). */
function addPages({ name, tools = [], definitions }: Backend, named: Named): void {
  const pages = [...tools.flatMap(({ app }) => app?.uri ?? []), ...(definitions.pins?.names('pages') ?? [])]
  for (const uri of pages) newUri(name, 'resources', uri, named)
}

/** The most tries to find a free URI for a page. */
const MOST_TRIES = 8

/**
 * Assigns a URI to a backend's page and returns it: its own or, if another backend has that one, a URI with the
 * backend's name as first segment. Returns undefined if the page already has a URI, or none is free.
 */
function addPage(backend: string, own: string, { uris, names }: Named): string | undefined {
  const known = names.get(backend)
  if (uris.get(known?.shown(own) ?? own) === backend) return undefined
  let shown = own
  for (let tries = 0; uris.has(shown); tries++) {
    if (known === undefined || tries === MOST_TRIES) return undefined
    shown = `${PAGE_SCHEME}${backend}/${shown.slice(PAGE_SCHEME.length)}`
  }
  uris.set(shown, backend)
  if (shown !== own) known?.renamePage(own, shown)
  return shown
}
