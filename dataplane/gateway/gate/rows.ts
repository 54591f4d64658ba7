import { isObject } from '../../../crds/settings/json.ts'
import type { ClaimsMap } from '../../identity/claims.ts'
import type { Steps } from '../limits/slices.ts'
import { Elements, Members, skipSpace } from '../mcp/json.ts'
import { comparableUrl, type Image, type Package, packageImage } from './location.ts'

export interface Row {
  readonly name: string
  readonly version: string
  readonly status: 'active' | 'deprecated' | 'deleted'
  readonly claims: ClaimsMap
  /** In the form of `comparableUrl`. */
  readonly urls: readonly string[]
  readonly images: readonly Image[]
  readonly uid: string | undefined
}

export interface RegistryRules {
  readonly mode: 'anonymous' | 'auth-only' | 'full'
  readonly claims: ClaimsMap
  /** True if nobody may read a registry without claims. */
  readonly closedWithoutClaims: boolean
}

export interface GatePage extends RegistryRules {
  readonly revision: string
  readonly rows: readonly Row[]
  readonly nextCursor: string | undefined
}

const MODES: readonly unknown[] = ['anonymous', 'auth-only', 'full'] satisfies RegistryRules['mode'][]
const STATUSES: readonly unknown[] = ['active', 'deprecated', 'deleted'] satisfies Row['status'][]

/** All sets of claims, each stored once, because most rows have one of a few sets. */
export type KnownClaims = Map<string, ClaimsMap>

/** Reads a page of a registry's gate. Invalid rows are left out. Throws an Error if the page is invalid. */
export function readGatePage(value: unknown, known: KnownClaims): GatePage {
  const head = readHead(value, known)
  const { servers } = value as { readonly servers?: unknown }
  if (!Array.isArray(servers)) throw noServers()
  return { ...head, rows: servers.flatMap((server) => readRow(server, known) ?? []) }
}

/** Reads a page from its text in steps, with the same result as `readGatePage`. */
export function* parseGatePage(text: string, known: KnownClaims): Steps<GatePage> {
  const members = new Members(text, skipSpace(text, 0))
  const head: Record<string, unknown> = {}
  let servers: string | undefined
  while (members.next()) {
    if (members.key === 'servers') servers = members.value
    else head[members.key] = JSON.parse(members.value)
  }
  if (members.end === -1 || skipSpace(text, members.end) !== text.length)
    throw new Error('the answer is not a JSON object')
  const page = readHead(head, known)
  if (servers?.startsWith('[') !== true) throw noServers()
  const rows: Row[] = []
  const elements = new Elements(servers, 0)
  while (elements.next()) {
    const row = readRow(JSON.parse(elements.value), known)
    if (row !== undefined) rows.push(row)
    yield
  }
  if (elements.end !== servers.length) throw new Error('its list of servers is not valid JSON')
  return { ...page, rows }
}

const noServers = () => new Error('the answer has no servers')

function readHead(value: unknown, known: KnownClaims): Omit<GatePage, 'rows'> {
  if (!isObject(value)) throw new Error('the answer is not a JSON object')
  const { revision, mode, claims, unlabelled, nextCursor } = value
  if (typeof revision !== 'string' || revision === '') throw new Error('the answer has no revision')
  if (!MODES.includes(mode)) throw new Error('the answer has an unknown mode')
  const own = readClaims(claims, known)
  if (own === undefined) throw new Error('the claims of the registry can’t be read')
  if (nextCursor !== undefined && typeof nextCursor !== 'string') throw new Error('the cursor is not a string')
  return {
    revision,
    mode: mode as RegistryRules['mode'],
    claims: own,
    closedWithoutClaims: unlabelled !== undefined && unlabelled !== 'allow',
    nextCursor,
  }
}

function readRow(value: unknown, known: KnownClaims): Row | undefined {
  if (!isObject(value)) return undefined
  const { name, version, status, remotes, packages, kubernetes } = value
  const claims = readClaims(value['claims'], known)
  if (typeof name !== 'string' || typeof version !== 'string' || !STATUSES.includes(status) || claims === undefined)
    return undefined
  const uid = isObject(kubernetes) ? kubernetes['uid'] : undefined
  return {
    name,
    version,
    status: status as Row['status'],
    claims,
    urls: filterObjects(remotes).flatMap(({ url }) => (typeof url === 'string' ? (comparableUrl(url) ?? []) : [])),
    images: filterObjects(packages).flatMap((one) => packageImage(readTexts(one)) ?? []),
    uid: typeof uid === 'string' && uid !== '' ? uid : undefined,
  }
}

const filterObjects = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value.filter(isObject) : []

const readTexts = (value: Readonly<Record<string, unknown>>): Package =>
  Object.fromEntries(Object.entries(value).filter(([, text]) => typeof text === 'string')) as Package

/** Reads claims; undefined for any value but an object of strings. It is never treated as "no claims". */
function readClaims(value: unknown, known: KnownClaims): ClaimsMap | undefined {
  if (!isObject(value)) return undefined
  const entries = Object.entries(value)
  if (!entries.every(([, text]) => typeof text === 'string')) return undefined
  const key = JSON.stringify(entries.sort(([one], [other]) => (one < other ? -1 : 1)))
  let claims = known.get(key)
  if (claims === undefined) known.set(key, (claims = value as ClaimsMap))
  return claims
}
