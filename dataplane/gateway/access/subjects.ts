import { isObject, memoize } from '../../../crds/settings/json.ts'
import type { Subject } from '../../policy/index.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import { findHolder, type PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import type { Route } from '../aggregation/shape.ts'
import { nearestSkill } from '../aggregation/skill-catalog.ts'
import { type ItemKind, listForms } from '../backends/lists/list-kind.ts'
import { toolForSession } from '../mcp/entry-rules.ts'
import { Elements, memberText } from '../mcp/json.ts'

/** The subjects of policy decisions, built from catalogs. */

/** An item of a list, as it is shown. */
export interface Listed {
  readonly subject: Subject
  /** A second subject that the caller must also be allowed to use. */
  readonly besides?: Subject
  readonly page?: string
  /** JSON text. */
  readonly text: string
  /** The JSON text of a tool for clients of sessions, if it differs. */
  readonly sessionText?: string
}

const NO_HINTS = {}
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']

const addKey = (subject: Omit<Subject, 'key'>): Subject => {
  const { action, id, backend, skill, hints } = subject
  const parts = [action, backend ?? null, Object.entries(hints), id]
  return { ...subject, key: JSON.stringify(skill === undefined ? parts : [...parts, skill]) }
}

const buildTool = (id: string, backend: string | undefined, hints: Readonly<Record<string, boolean>>): Subject =>
  addKey({ action: 'call_tool', type: 'Tool', id, backend, hints })

const buildPrompt = (id: string, backend: string | undefined): Subject =>
  addKey({ action: 'get_prompt', type: 'Prompt', id, backend, hints: NO_HINTS })

/** Returns the subject for a resource URI, whether it is listed or may come from a template. */
export const resourceSubject = (catalog: PromptResourceCatalog, uri: string): Subject =>
  resourceAt(uri, findHolder(catalog, uri), nearestSkill(catalog.skills, uri))

export const resourceAt = (uri: string, backend: string | undefined, skill?: string): Subject =>
  addKey({
    ...{ action: 'read_resource', type: 'Resource', id: uri, backend, hints: NO_HINTS },
    ...(skill === undefined ? {} : { skill }),
  })

/** Returns the SKILL.md that a caller must also be allowed to read for this resource; undefined if there is none. */
export const skillSubject = (catalog: PromptResourceCatalog, { id, skill }: Subject): Subject | undefined =>
  skill === undefined || skill === id ? undefined : resourceSubject(catalog, skill)

/** Returns the subject for a prompt name, even if no prompt has it. */
export const promptSubject = ({ prompts }: PromptResourceCatalog, name: string): Subject =>
  buildPrompt(name, prompts.get(name)?.backend)

/** Returns the tools of a catalog by their routes, and composite ones by name. Computed once for each catalog. */
const buildTools = memoize((catalog: Catalog) => {
  const texts = listTexts(catalog.modernList, 'tools')
  const listed = [...catalog.routes].map(([name, route], index) => {
    const text = texts[index] ?? ''
    const page = catalog.pages.get(route)
    const listed = { subject: buildTool(name, route.backend, readHints(text)), ...buildTexts(text) }
    return [route, page === undefined ? listed : { ...listed, page }] as const
  })
  const byRoute = new Map<Route, Listed>(listed)
  const composites = [...catalog.composites].map(
    ([name, { text }]) =>
      [name, { subject: buildTool(name, undefined, readHints(text)), ...buildTexts(text) }] as const,
  )
  return { byRoute, composites: new Map<string, Listed>(composites), hidden: buildHidden(catalog, byRoute) }
})

function buildTexts(text: string): Pick<Listed, 'text' | 'sessionText'> {
  const sessionText = toolForSession(text)
  return sessionText === text ? { text } : { text, sessionText }
}

/** Returns the tools that only steps of composite tools call, with the names that they would be shown under. */
const buildHidden = ({ stepTools }: Catalog, shown: ReadonlyMap<Route, Listed>): ReadonlyMap<Route, Subject> =>
  new Map(
    [...stepTools.values()]
      .filter(({ route }) => !shown.has(route))
      .map(({ name, text, route }) => [route, buildTool(name, route.backend, readHints(text))]),
  )

/**
 * Returns the subject for a tool name, or for its route if there is one. A tool that the catalog lacks is decided by
 * its name and backend.
 */
export function toolSubject(catalog: Catalog, name: string, route: Route | undefined): Subject {
  const { byRoute, composites, hidden } = buildTools(catalog)
  const known = route === undefined ? composites.get(name)?.subject : (byRoute.get(route)?.subject ?? hidden.get(route))
  return known ?? buildTool(name, route?.backend, NO_HINTS)
}

export function listedTools(catalog: Catalog): readonly Listed[] {
  const { byRoute, composites } = buildTools(catalog)
  return [...byRoute.values(), ...composites.values()]
}

const buildItems = memoize((catalog: PromptResourceCatalog) => ({
  prompts: listItems(catalog, 'prompts'),
  resources: listItems(catalog, 'resources'),
  templates: listItems(catalog, 'templates'),
  skills: listItems(catalog, 'skills'),
}))

export const listedItems = (catalog: PromptResourceCatalog, kind: ItemKind): readonly Listed[] =>
  buildItems(catalog)[kind]

function listItems(catalog: PromptResourceCatalog, kind: ItemKind): readonly Listed[] {
  const { member, key } = listForms[kind]
  const buildSubject = kind === 'prompts' ? promptSubject : resourceSubject
  return listTexts(catalog.lists[kind].legacy, member).map((text) => {
    const item = JSON.parse(text) as Record<string, string>
    const subject = buildSubject(catalog, item[key] as string)
    const besides = skillSubject(catalog, subject)
    return besides === undefined ? { subject, text } : { subject, besides, text }
  })
}

export function listTexts(list: Buffer, member: string): string[] {
  const elements = new Elements(memberText(list.toString(), member) ?? '[]', 0)
  const texts: string[] = []
  while (elements.next()) texts.push(elements.value)
  return texts
}

/** Reads the boolean annotations. A value of another type counts as absent. */
function readHints(tool: string): Readonly<Record<string, boolean>> {
  const text = tool.includes('Hint') ? memberText(tool, 'annotations') : undefined
  const annotations: unknown = text === undefined ? undefined : JSON.parse(text)
  if (!isObject(annotations)) return NO_HINTS
  const isSaid = (hint: string) => Object.hasOwn(annotations, hint) && typeof annotations[hint] === 'boolean'
  return Object.fromEntries(HINTS.filter(isSaid).map((hint) => [hint, annotations[hint] as boolean]))
}
