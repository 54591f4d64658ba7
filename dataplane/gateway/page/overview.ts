import type { IncomingHttpHeaders } from 'node:http'
import { memoize } from '../../../crds/settings/json.ts'
import { type NeedsOfTools, needsOfTools } from '../access/call-needs.ts'
import { type Catalog, countShownTools } from '../aggregation/catalog.ts'
import type { HealthState } from '../backends/health/health.ts'
import type { Gateway } from '../core/gateway.ts'
import { Elements, memberText } from '../mcp/json.ts'
import { ENDPOINT } from '../request/public-url.ts'
import type { Setup } from '../request/setup.ts'

/** The parts of a gateway that anonymous visitors may see. */
export interface Overview {
  readonly name: string
  readonly endpoint: string
  readonly access: OpenAccess | LoginAccess | PolicyAccess
}

/** Access for anonymous callers, who may list all tools. */
export interface OpenAccess {
  readonly kind: 'open'
  readonly servers: readonly ServerSummary[]
  readonly serverCount: number
  readonly tools: readonly ToolSummary[]
  readonly toolCount: number
}

/** Access for anonymous callers under policies. The page does not evaluate the policies, so it shows no tools. */
interface PolicyAccess {
  readonly kind: 'policy'
}

/** Access with a token only. The page then shows nothing of the backends. */
export interface LoginAccess {
  readonly kind: 'login'
  /** The URL of the protected resource metadata (RFC 9728), which is public. */
  readonly metadata: string
  readonly authorizationServers: readonly string[]
  readonly scopes: readonly string[]
  /** The requirements of some tools besides a token. */
  readonly needs: NeedsOfTools
}

export interface ServerSummary {
  readonly name: string
  readonly health: HealthState
  readonly tools: number
}

const MOST_SERVERS = 100
const LONGEST_NAME = 128

/** @param headers the request's headers, from which the shown address may derive */
export function buildOverview({ setup, shared, gated }: Gateway, headers: IncomingHttpHeaders): Overview {
  const { config } = setup
  const endpoint = findEndpoint(setup, headers)
  if (config.incomingAuth.type !== 'anonymous')
    return { name: config.name, endpoint, access: describeLogin(setup, headers) }
  if (setup.authorizer !== undefined) return { name: config.name, endpoint, access: { kind: 'policy' } }
  const { catalog, backends } = gated.enforced === undefined ? shared : gated.anonymous
  const { tools, total, countOf } = toolSummaries(catalog)
  const servers = backends.slice(0, MOST_SERVERS).map((backend) => ({
    name: shorten(backend.name, LONGEST_NAME),
    health: backend.health.state,
    tools: countOf.get(backend.name) ?? 0,
  }))
  const access = { kind: 'open', servers, serverCount: backends.length, tools, toolCount: total } as const
  return { name: config.name, endpoint, access }
}

/** Returns the URL of the endpoint. If none is configured, it is the address at which the page was requested. */
function findEndpoint({ config, publicUrlOf }: Setup, headers: IncomingHttpHeaders): string {
  if (config.resourceUrl !== undefined || config.trustProxyHeaders) return publicUrlOf(headers).resource
  const host = URL.parse(`http://${headers.host}`)?.host || 'localhost'
  return `http://${host}${config.endpointPrefix ?? ''}${ENDPOINT}`
}

function describeLogin({ config, publicUrlOf, resourceMetadata }: Setup, headers: IncomingHttpHeaders): LoginAccess {
  const { authorization_servers, scopes_supported } = resourceMetadata(headers) ?? {}
  return {
    kind: 'login',
    metadata: publicUrlOf(headers).metadataUrl,
    authorizationServers: authorization_servers ?? [],
    scopes: scopes_supported ?? [],
    needs: needsOfTools(config),
  }
}

export interface ToolSummary {
  readonly name: string
  readonly description: string
}

interface ToolSummaries {
  /** The first tools, in the catalog's order. */
  readonly tools: readonly ToolSummary[]
  readonly total: number
  /** The number of tools of each backend that has any, by its name. */
  readonly countOf: ReadonlyMap<string, number>
}

/** The most tools on a page. */
const MOST_TOOLS = 200
const LONGEST_DESCRIPTION = 300
/**
 * The most bytes of the list that are parsed for the page. They hold some thousand ordinary tools and take a few
 * milliseconds.
 */
const MOST_READ = 2 ** 21
/** The longest JSON text of a description that is read. */
const MOST_DESCRIPTION_READ = 2 ** 16

/** Returns short descriptions of a catalog's tools, computed once. */
export const toolSummaries = memoize((catalog: Catalog): ToolSummaries => {
  const { routes, legacyList } = catalog
  const countOf = countShownTools(catalog)
  // The text may end within a tool. That tool is left out.
  const text = legacyList.subarray(0, MOST_READ).toString()
  const elements = new Elements(text, text.indexOf('['))
  const tools: ToolSummary[] = []
  while (tools.length < MOST_TOOLS && elements.next()) {
    const tool = elements.value
    tools.push({ name: readStringMember(tool, 'name', LONGEST_NAME), description: readDescription(tool) })
  }
  return { tools, total: routes.size, countOf }
})

const readDescription = (tool: string) =>
  readStringMember(tool, 'description', LONGEST_DESCRIPTION) || readStringMember(tool, 'title', LONGEST_DESCRIPTION)

/** Returns a string member, cut to `longest`; empty if there is none. */
function readStringMember(object: string, name: string, longest: number): string {
  const text = memberText(object, name)
  if (text === undefined || text.length > MOST_DESCRIPTION_READ || !text.startsWith('"')) return ''
  try {
    return shorten(JSON.parse(text) as string, longest)
  } catch {
    return ''
  }
}

/** Cuts a text to `longest` characters; a cut text ends in an ellipsis. */
const shorten = (text: string, longest: number): string =>
  (text.length <= longest ? text : `${text.slice(0, longest - 1)}…`).toWellFormed()
