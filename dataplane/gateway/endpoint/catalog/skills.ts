import { isObject } from '../../../../crds/settings/json.ts'
import { PublicError } from '../../../server/errors.ts'
import type { SkillCatalog } from '../../aggregation/skill-catalog.ts'
import { readSkill } from '../../backends/lists/skill.ts'
import { READ } from '../../call/answer-translation.ts'
import { relayCall } from '../../call/call.ts'
import type { WholeAnswer } from '../../call/call-request.ts'
import { findResource, type ResourceAt } from '../../core/view.ts'
import { Elements, editObject, memberText, parseJson } from '../../mcp/json.ts'
import { declaredSkills, hasSkillScheme, isCanonicalSkill, MANIFEST, shownText } from '../../mcp/skills.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import { at, checkMayRead, mayRead, unknown } from './caller-catalog.ts'
import { afterFirstLists, requireUri, serveList, withUri } from './prompts-and-resources.ts'

/** Serves `skills/list` (SEP-2640) from the backends' lists. It reads no file of a skill. */
export function listSkills(request: EndpointRequest): void {
  afterFirstLists(request, () => {
    requireSkills(request)
    serveList(request, 'skills')
  })
}

/**
 * Serves `skills/get`: asks the skill's backend for the current entry, whether or not it is listed. If the backend is
 * unreachable, a listed entry is returned.
 */
export function getSkill(request: EndpointRequest): void {
  const uri = requireUri(request)
  afterFirstLists(request, () => {
    const { folders } = requireSkills(request)
    const found = findReadableSkill(request, uri)
    if (!uri.endsWith(MANIFEST)) throw unknownUri(request, uri)
    const known = folders.get(uri.slice(0, -MANIFEST.length))?.text
    relay(request, found, {
      edit: (result) => buildResult(request, 'skill', readSkillEntry(result, found, request)),
      otherwise: () => (known === undefined ? undefined : buildResult(request, 'skill', known)),
    })
  })
}

/** Serves `resources/directory/read`: asks the backend, and returns only direct children that the caller may read. */
export function readDirectory(request: EndpointRequest): void {
  const uri = requireUri(request)
  afterFirstLists(request, () => {
    const { directories } = requireSkills(request)
    if (directories.size === 0) throw new PublicError('method_not_found')
    const found = findReadableSkill(request, uri)
    if (!directories.has(found.backend.name)) throw unknownUri(request, uri)
    relay(request, found, {
      edit: (result) => {
        const cursor = memberText(result, 'nextCursor')
        const more = cursor?.startsWith('"') ? `,"nextCursor":${cursor}` : ''
        return buildResult(request, 'resources', `[${listChildren(result, found, request).join(',')}]${more}`)
      },
    })
  })
}

/** Returns the skills that the caller sees. Throws `method_not_found` if no backend supports the extension. */
function requireSkills({ view }: EndpointRequest): SkillCatalog {
  const { skills } = view.promptsAndResources
  if (skills === undefined) throw new PublicError('method_not_found')
  return skills
}

/** Finds the backend with skills to which a URI belongs. Throws if there is none or the caller may not read it. */
function findReadableSkill(request: EndpointRequest, uri: string): ResourceAt {
  checkMayRead(request, uri)
  const found = findResource(request.view, uri)
  // Pins don't cover skills yet, so a backend with enforced pins has none, even if it has the file.
  const hasSkills = found !== undefined && declaredSkills(found.backend.capabilities) !== undefined
  if (!hasSkills || found.backend.definitions.areEnforced) throw unknownUri(request, uri)
  return found
}

const unknownUri = (request: EndpointRequest, uri: string): PublicError => unknown(request, 'unknown_resource', { uri })

/** Relays a request whose answer is changed. If it can't be changed, only this request fails. */
function relay(request: EndpointRequest, { backend, own, names }: ResourceAt, answer: WholeAnswer): void {
  const destination = { ...at(backend, '', '', names), answer }
  try {
    relayCall(request.gateway, request, destination, withUri(request.message, own))
  } catch (error) {
    const known =
      error instanceof PublicError && error.code === 'backend_unavailable' ? answer.otherwise?.() : undefined
    if (known === undefined) throw error
    request.result(known)
  }
}

const buildResult = ({ era }: EndpointRequest, member: string, text: string): string =>
  `{${era === 'modern' ? `${READ},` : ''}"${member}":${text}}`

/**
 * Returns the entry in a backend's result as clients see it. Throws if it breaks a rule or belongs to another skill.
 */
function readSkillEntry(result: string, { backend, own, names }: ResourceAt, { setup }: EndpointRequest): string {
  const text = memberText(result, 'skill')
  const value = parseObject(text)
  const item = text !== undefined && isObject(value) ? readSkill({ key: own, text, value }) : 'it has no entry'
  const problem = typeof item === 'string' ? item : value?.['uri'] === own ? undefined : 'it gave another skill'
  if (text === undefined || problem !== undefined)
    throw new PublicError('backend_failed', { cause: new Error(`the backend ${backend.name}: ${problem}`) })
  return setup.config.role === 'proxy' ? text : shownText(text, backend.name, names?.shown ?? same)
}

const same = (uri: string): string => uri

function parseObject(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = text === undefined ? undefined : parseJson(text)
    return isObject(value) ? value : undefined
  } catch (cause) {
    throw new PublicError('backend_failed', { cause })
  }
}

/** Returns the children in a backend's result that are directly in the directory and that the caller may read. */
function listChildren(result: string, { own, names }: ResourceAt, request: EndpointRequest): string[] {
  const children = new Elements(memberText(result, 'resources') ?? '[]', 0)
  const shown: string[] = []
  while (children.next()) {
    const text = children.value
    const uri = parseObject(text)?.['uri']
    if (typeof uri !== 'string' || !isChild(uri, own)) continue
    const name = names?.shown(uri) ?? uri
    if (findResource(request.view, name) === undefined || !mayRead(request, name)) continue
    shown.push(name === uri ? text : editObject(text, { uri: JSON.stringify(name) }))
  }
  return shown
}

function isChild(uri: string, directory: string): boolean {
  if (!uri.startsWith(`${directory}/`) || (hasSkillScheme(uri) && !isCanonicalSkill(uri))) return false
  const name = uri.slice(directory.length + 1)
  return name !== '' && !/[/?#]/.test(name)
}
