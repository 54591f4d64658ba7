import type { Backend } from '../backends/backend/backend.ts'
import { type ItemKind, listForms } from '../backends/lists/list-kind.ts'
import { editObject } from '../mcp/json.ts'
import { hasSkillScheme, isCanonicalSkill, SKILL_SCHEME } from '../mcp/skills.ts'
import type { BackendSkills } from './skill-catalog.ts'
import { PAGE_SCHEME, type UriNames } from './uri-names.ts'

type AddressedKind = Extract<ItemKind, 'resources' | 'templates'>

/** The assigned URIs, and the mapping for each backend. */
export interface Named {
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
export function addressItems(backends: readonly Backend[], kind: AddressedKind, named: Named): string[] {
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
  if (uris.has(uri) || isOfOther(backend, uri, named)) return undefined
  uris.set(uri, backend)
  return uri
}

/** Tells whether a URI belongs to another backend's skills. */
function isOfOther(backend: string, uri: string, { names, skills }: Named): boolean {
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
