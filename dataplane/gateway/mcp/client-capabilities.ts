import { isObject } from '../../../crds/settings/json.ts'
import { APPS_EXTENSION, WITH_APPS } from './apps.ts'

/** The client capabilities that are relayed. Servers behind the gateway don't need the others. */
export interface ClientCapabilities {
  elicitation?: { form?: object; url?: object }
  sampling?: { context?: object; tools?: object }
  roots?: { listChanged?: boolean }
  extensions?: { [APPS_EXTENSION]: { mimeTypes?: string[] } }
}

/** The capability that each server-to-client request needs. */
export const askable: Readonly<Record<string, 'elicitation' | 'sampling' | 'roots'>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

const MOST_MIME_TYPES = 8
const LONGEST_MIME_TYPE = 128

/**
 * Normalizes declared capabilities, so that sets with the same meaning are equal, because sessions with backends are
 * keyed by them. The result is small, whatever was declared.
 */
export function normalCapabilities(declared: unknown): ClientCapabilities {
  if (!isObject(declared)) return {}
  const { elicitation, sampling, roots, extensions } = declared
  const normal: ClientCapabilities = {}
  if (isObject(elicitation)) normal.elicitation = objectMembers(elicitation, ['form', 'url'])
  if (isObject(sampling)) normal.sampling = objectMembers(sampling, ['context', 'tools'])
  if (isObject(roots)) normal.roots = roots['listChanged'] === true ? { listChanged: true } : {}
  const apps = isObject(extensions) ? extensions[APPS_EXTENSION] : undefined
  if (isObject(apps)) normal.extensions = { [APPS_EXTENSION]: readMimeTypes(apps) }
  return normal
}

/** Returns the relayed part of a client's capabilities, which is declared to backends, as JSON text. */
export const declareCapabilities = (capabilities: unknown): string => JSON.stringify(normalCapabilities(capabilities))

/** Returns the named members that are objects, without their content. */
function objectMembers(
  capability: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Record<string, object> {
  return Object.fromEntries(names.filter((name) => isObject(capability[name])).map((name) => [name, {}]))
}

function readMimeTypes({ mimeTypes }: Readonly<Record<string, unknown>>): { mimeTypes?: string[] } {
  if (!Array.isArray(mimeTypes)) return {}
  const types = mimeTypes.filter((type): type is string => typeof type === 'string' && type.length <= LONGEST_MIME_TYPE)
  return { mimeTypes: [...new Set(types)].sort().slice(0, MOST_MIME_TYPES) }
}

/**
 * The capabilities of a client that supports everything that the gateway relays. They are declared when lists are
 * requested, because some servers list certain tools only to clients that declare what those tools need
 * (server-everything does). A call declares the capabilities of its own client.
 */
export const ALL_CAPABILITIES = {
  elicitation: { form: {}, url: {} },
  sampling: { tools: {}, context: {} },
  roots: { listChanged: true },
  ...WITH_APPS,
}
