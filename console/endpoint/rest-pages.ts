import { isObject } from '../../crds/settings/json.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { type CatalogEntry, type CatalogFacts, readEntry, type WhyFacts } from '../facts/catalog.ts'
import { definitionsIn } from '../facts/changes.ts'
import { buildPath, identify, servesMcp } from '../facts/places.ts'
import { formatKey } from '../facts/subjects.ts'
import {
  COUNTED,
  countedUsage,
  countingManifest,
  MEASURED,
  readPeriod,
  type UsageFacts,
  usageCsv,
  usageQuery,
  usageRows,
  usageSum,
} from '../facts/usage.ts'
import { h } from '../pages/element.ts'
import {
  catalogPage,
  changesPage,
  definitionsView,
  entryPage,
  unpinned,
  usagePage,
  usageSums,
  workloadLinks,
} from '../pages/rest.ts'
import { AnswerError, readJson } from '../places/read-json.ts'
import { beginLogin, keepToken } from './login-pages.ts'
import { listRegistries } from './object-pages.ts'
import { buildHead, requireObject } from './pages.ts'
import { type Page, patiently, type Visit } from './visit.ts'

const callable = ({ world }: Visit, part: string) =>
  world.objects
    .all()
    .filter(({ kind }) => servesMcp(kind))
    .slice(0, 500)
    .map((object) => ({ object, ...identify(object), href: buildPath(identify(object), part) }))

function mcpObject(visit: Visit) {
  const object = requireObject(visit)
  if (!servesMcp(object.kind)) throw new PublicError('not_found')
  return object
}

/** Returns the folder of the manifests, for a command. In a cluster it is unknown, so the result is a placeholder. */
const findFolder = ({ kind, title }: Visit['places']): string => (kind === 'machine' ? title : 'DIR')

/** Shows the definitions of one workload's servers. */
export const changes: Page = async (visit) => {
  const { places, session, isPage } = visit
  const object = mcpObject(visit)
  const report = (await patiently(places.definitions(session.viewer, object), isPage)) ?? { missing: 'still asking' }
  const facts = { ...(await buildHead(visit, object)), ...definitionsIn(report) }
  return { title: `${facts.name}: changes`, facts, content: changesPage(facts, findFolder(places)) }
}

const MOST_ASKED = 20

/** Shows the definitions that wait for approval. */
export const changesHome: Page = async (visit) => {
  const { places, session, isPage } = visit
  const workloads = callable(visit, 'changes')
  const asked = places.kind === 'machine' ? workloads.slice(0, MOST_ASKED) : []
  const reports =
    (await patiently(Promise.all(asked.map(({ object }) => places.definitions(session.viewer, object))), isPage)) ?? []
  const known = asked.flatMap(({ kind, namespace, name, href }, index) => {
    const report = reports[index]
    return report ? [{ kind, namespace, name, href, ...definitionsIn(report) }] : []
  })
  const found = known.filter(({ changed }) => changed.length > 0)
  // A gateway reports its members' definitions too, so other workloads would count them twice.
  const gateways = known.filter(({ kind }) => kind === 'VirtualMCPServer')
  const sum = (of: 'approved' | 'unchecked') =>
    (gateways.length > 0 ? gateways : known).reduce((total, one) => total + one[of], 0)
  const facts = {
    changed: found,
    approved: sum('approved'),
    unchecked: sum('unchecked'),
    workloads: workloads.map(({ kind, namespace, name, href }) => ({ kind, namespace, name, href })),
  }
  const content = [
    h('h1', {}, 'Changes'),
    h(
      'p',
      { class: 'lead' },
      'Servers may change what their tools say after somebody has approved them. This page lists the definitions that differ from the approved ones.',
    ),
    found.length === 0 &&
      facts.approved > 0 &&
      h(
        'p',
        { class: 'calm' },
        `✓ Nothing waits: ${facts.approved.toLocaleString('en')} definitions are served as approved.`,
      ),
    found.length === 0 && facts.approved === 0 && facts.unchecked > 0 && unpinned(facts.unchecked, findFolder(places)),
    found.map((one) => [h('h2', {}, h('a', { href: one.href }, one.name)), definitionsView(one)]),
    h('h2', {}, 'Workloads'),
    workloadLinks(facts.workloads),
  ]
  return { title: 'Changes', facts, content }
}

/** The text for a workload whose counters are off. */
const NOT_COUNTED =
  'Its calls are not counted. Set usage.enabled on the workload, as below, or metrics.prometheusUrl in the configuration of a console in a pod.'

/** Returns the text for a workload that counts no calls, or does not count them by person. */
function plainly(missing: string | null): string | null {
  if (missing?.startsWith('HTTP 404') === true) return NOT_COUNTED
  return missing?.startsWith('HTTP 400') === true
    ? 'Calls are not counted by person: usage.people is disabled.'
    : missing
}

async function readUsage(visit: Visit): Promise<UsageFacts> {
  const { query, now, prometheus, places, session, isPage } = visit
  const object = mcpObject(visit)
  const head = await buildHead(visit, object)
  const { from, to, ...period } = readPeriod(query('from'), query('to'), now)
  const by = COUNTED.find((one) => one === query('by')) ?? 'tool'
  const facts = { ...head, from, to, by, choices: COUNTED }
  const nothing = { rows: [], other: null, since: null, right: null, manifest: null }
  const measured = MEASURED.find((one) => one === by)
  if (prometheus === undefined || measured === undefined) {
    const asked = places.usage(session.viewer, object, String(new URLSearchParams({ from, to, by })), by === 'person')
    const counted = countedUsage((await patiently(asked, isPage)) ?? [{ missing: 'still asking' }])
    const missing = plainly(counted.missing)
    const manifest = missing === NOT_COUNTED ? countingManifest(head) : null
    return { ...facts, ...counted, source: 'counters', missing, manifest }
  }
  try {
    const samples = await prometheus.query(usageQuery(head, measured, { ...period, from, to }), period.end)
    return { ...facts, ...nothing, source: 'Prometheus', rows: usageRows(samples, measured), missing: null }
  } catch (error) {
    const missing = `Prometheus can’t be asked: ${(error as Error).message}`
    return { ...facts, ...nothing, source: 'Prometheus', missing }
  }
}

/** Shows how often the tools of a workload are called. */
export const usage: Page = async (visit) => {
  const facts = await readUsage(visit)
  const csv = visit.query('format') === 'csv' ? usageCsv(facts) : undefined
  return { title: `${facts.name}: usage`, facts, content: usagePage(facts), ...(csv !== undefined && { csv }) }
}

/** Shows the workloads whose usage can be displayed. */
export const usageHome: Page = async (visit) => {
  const { places, session, isPage, now } = visit
  const all = callable(visit, 'usage')
  const asked = places.kind === 'machine' ? all.slice(0, MOST_ASKED) : []
  const { from, to } = readPeriod(undefined, undefined, now)
  const query = String(new URLSearchParams({ from, to, by: 'tool' }))
  const reports =
    (await patiently(
      Promise.all(asked.map(({ object }) => places.usage(session.viewer, object, query, false))),
      isPage,
    )) ?? []
  const workloads = all.map(({ kind, namespace, name, href }) => ({ kind, namespace, name, href }))
  const counted = workloads.slice(0, reports.length).map((one, index) => usageSum(one, reports[index] ?? []))
  const content = [
    h('h1', {}, 'Usage'),
    h('p', { class: 'lead' }, 'How often the tools of a workload are called, and how often they fail.'),
    counted.length > 0 && usageSums(counted, from, to),
    counted.length < workloads.length && [h('h2', {}, 'Workloads'), workloadLinks(workloads.slice(counted.length))],
    workloads.length === 0 && workloadLinks([]),
  ]
  return { title: 'Usage', facts: { from, to, counted, workloads }, content }
}

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
      const names = (await patiently(listRegistries(visit, object), visit.isPage)) ?? []
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
    const missing = needsToken ? `The registry does not show itself: ${said}` : `The registry does not answer: ${said}`
    return { ...NO_ENTRIES, missing, needsToken }
  }
}

/** Asks the registry whether and why the viewer sees an entry. */
async function askWhy({ base, name: registry }: Registry, token: string | undefined, name: string): Promise<WhyFacts> {
  const nothing = { name, visible: null, checks: [] }
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
    return { ...nothing, error: (error as Error).message }
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
