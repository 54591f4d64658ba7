import { isObject } from '../../crds/settings/json.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { type CatalogEntry, type CatalogFacts, readEntry, type WhyFacts } from '../facts/catalog.ts'
import { catalogPage, entryPage } from '../pages/catalog.ts'
import { formatKey, identify } from '../places/object-id.ts'
import { AnswerError, readJson } from '../places/read-json.ts'
import { listRegistries } from './object-pages.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'
import { beginLogin, keepToken } from './workload-logins.ts'

interface Registry {
  readonly name: string
  /** The name, with the MCPRegistry where several have a registry of this name. */
  readonly label: string
  /** `NAMESPACE/NAME` of the MCPRegistry; undefined where the name says it. */
  readonly of: string | undefined
  readonly object: KubernetesObject
  readonly base: string | undefined
  /** The path of its page, without the query. */
  readonly path: string
  readonly href: string
}

async function registriesIn(visit: Visit): Promise<readonly Registry[]> {
  const { world, places, session } = visit
  const servers = world.objects
    .all()
    .filter(({ kind }) => kind === 'MCPRegistry')
    .slice(0, 50)
  const found = await Promise.all(
    servers.map(async (object) => {
      const names = (await waitBriefly(listRegistries(visit, object), visit.isPage)) ?? []
      return names.map((name) => ({ name, object, base: places.address(session.viewer, object) }))
    }),
  )
  const all = found.flat()
  const sharing = Map.groupBy(all, ({ name }) => name)
  return all.map(({ name, object, base }) => {
    const id = `${object.metadata.namespace ?? 'default'}/${object.metadata.name}`
    const of = (sharing.get(name)?.length ?? 0) > 1 ? id : undefined
    const path = `/catalog/${encodeURIComponent(name)}`
    const href = of === undefined ? path : `${path}?${new URLSearchParams({ of })}`
    return { name, object, base, of, path, href, label: of === undefined ? name : `${name} (${of})` }
  })
}

/** Returns the viewer's token for the server of a registry. */
const tokenFor = ({ session, tokens }: Visit, { object }: Registry): string | undefined =>
  tokens.get(session.id, formatKey(identify(object)))

const PAGE = 30
const REFUSED: ReadonlySet<number> = new Set([401, 403])

type Entries = Pick<CatalogFacts, 'entries' | 'next' | 'missing' | 'needsToken'>
const NO_ENTRIES: Entries = { entries: [], next: null, missing: null, needsToken: false }

async function readEntries(
  { base, name, path, of }: Registry,
  token: string | undefined,
  search: string,
  cursor: string | undefined,
): Promise<Entries> {
  if (base === undefined) return { ...NO_ENTRIES, missing: 'The console can’t reach this registry from here.' }
  const query = new URLSearchParams({
    limit: String(PAGE),
    version: 'latest',
    ...(search !== '' && { search }),
    ...(cursor !== undefined && { cursor }),
  })
  try {
    const answer = await readJson(`${base}/registry/${encodeURIComponent(name)}/v0.1/servers?${query}`, { token })
    const { servers, metadata } = isObject(answer) ? answer : {}
    const entries = (Array.isArray(servers) ? servers : []).flatMap((one): CatalogEntry[] => {
      const entry = readEntry(one, name)
      return entry
        ? [of === undefined ? entry : { ...entry, href: `${entry.href}?${new URLSearchParams({ of })}` }]
        : []
    })
    const following = isObject(metadata) && typeof metadata['nextCursor'] === 'string' ? metadata['nextCursor'] : null
    const next =
      following === null
        ? null
        : `${path}?${new URLSearchParams({ ...(of !== undefined && { of }), search, cursor: following })}`
    return { ...NO_ENTRIES, entries, next }
  } catch (error) {
    const needsToken = error instanceof AnswerError && REFUSED.has(error.status)
    const said = (error as Error).message
    const missing = needsToken ? `The registry refuses the request: ${said}` : `The registry does not answer: ${said}`
    return { ...NO_ENTRIES, missing, needsToken }
  }
}

/** Asks the registry whether and why the viewer sees an entry. */
async function askWhy({ base, name: registry }: Registry, token: string | undefined, name: string): Promise<WhyFacts> {
  try {
    const answer = await readJson(`${base}/v1/explain`, {
      method: 'POST',
      body: { registry, type: 'server', name },
      token,
    })
    const { visible, checks } = isObject(answer) ? answer : {}
    const text = (value: unknown) => (typeof value === 'string' ? value.slice(0, 500) : '')
    return {
      name,
      visible: visible === true,
      checks: (Array.isArray(checks) ? checks.filter(isObject) : []).slice(0, 50).map(({ check, allowed, reason }) => ({
        check: text(check),
        allowed: allowed === true,
        reason: text(reason),
      })),
      error: null,
    }
  } catch (error) {
    return { name, visible: null, checks: [], error: (error as Error).message }
  }
}

/**
 * Returns the registry of a name, of the MCPRegistry `of` where several have one; without a name the first, if there is
 * one. Throws a PublicError `not_found`.
 */
function namedIn(registries: readonly Registry[], wanted: string, of: string | undefined): Registry | undefined {
  if (wanted === '') return registries[0]
  const found = registries.find((one) => one.name === wanted && (of === undefined || one.of === of))
  if (found === undefined) throw new PublicError('not_found')
  return found
}

/** Shows the entries that the viewer sees in the registry that the path names, or in the first one. */
export const catalog: Page = async (visit) => {
  const { param, query, form } = visit
  const registries = await registriesIn(visit)
  const chosen = namedIn(registries, param('registry'), query('of'))
  if (form !== undefined && chosen !== undefined) {
    if (form.has('login')) return beginLogin(visit, { object: chosen.object, back: chosen.href })
    keepToken(visit, chosen.object, form)
  }
  const token = chosen && tokenFor(visit, chosen)
  const search = (query('search') ?? '').slice(0, 200)
  const why = (query('why') ?? '').trim().slice(0, 300)
  const read = chosen === undefined ? NO_ENTRIES : await readEntries(chosen, token, search, query('cursor'))
  const facts: CatalogFacts = {
    registries: registries.map(({ label, href }) => ({ name: label, href })),
    registry: chosen?.name ?? null,
    label: chosen?.label ?? null,
    of: chosen?.of ?? null,
    search,
    ...read,
    hasToken: token !== undefined,
    why: chosen === undefined || why === '' ? null : await askWhy(chosen, token, why),
  }
  const formToken = visit.formToken(chosen?.path ?? '/catalog')
  return { title: 'Catalog', facts, content: catalogPage(facts, formToken), isLive: form === undefined }
}

/** Shows one entry of a registry. */
export const catalogEntry: Page = async (visit) => {
  const { param, query } = visit
  const registry = namedIn(await registriesIn(visit), param('registry'), query('of'))
  if (registry?.base === undefined) throw new PublicError('not_found')
  const name = `${param('namespace')}/${param('server')}`
  let answer: unknown
  try {
    answer = await readJson(
      `${registry.base}/registry/${encodeURIComponent(registry.name)}/v0.1/servers/${encodeURIComponent(name)}/versions/latest`,
      { token: tokenFor(visit, registry) },
    )
  } catch {
    throw new PublicError('not_found')
  }
  const entry = readEntry(answer, registry.name)
  if (entry === undefined) throw new PublicError('not_found')
  return { title: entry.title, facts: entry, content: entryPage(entry, registry), isLive: false }
}
