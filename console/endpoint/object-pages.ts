import { isObject } from '../../crds/settings/json.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { type AccessFacts, accessSteps } from '../facts/access.ts'
import { type AuditedCall, listDenied, parseCall } from '../facts/calls.ts'
import { declaredRegistries } from '../facts/catalog.ts'
import { connectFacts, type LoginFacts } from '../facts/connect.ts'
import { readCursor } from '../facts/list.ts'
import { mapFacts } from '../facts/map.ts'
import { sourceFacts } from '../facts/source.ts'
import { claimsText } from '../mcp/tokens.ts'
import { accessPage, deniedTable } from '../pages/access.ts'
import { connectPage } from '../pages/connect.ts'
import { type Child, h } from '../pages/element.ts'
import { helpPages } from '../pages/help.ts'
import { mapDrawing, mapPage } from '../pages/map.ts'
import { empty } from '../pages/parts.ts'
import { logPage, sourcePage } from '../pages/source.ts'
import { workloadHead } from '../pages/workload.ts'
import { workloadLinks } from '../pages/workloads.ts'
import { buildPath, formatKey, identify } from '../places/object-id.ts'
import { PlaceError } from '../places/place.ts'
import { askGateways, buildHead, listCallable, requireObject, requirePart } from './pages.ts'
import { toolNames } from './try-pages.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'
import { loginFacts } from './workload-logins.ts'

const readMapList = ({ c, query }: Visit) => ({ path: c.req.path, start: Number(readCursor(query('cursor'))) })

/** Shows the whole map. */
export const map: Page = async (visit) => {
  const { reports } = await askGateways(visit)
  const facts = mapFacts(visit.world.objects, reports, {
    ns: (visit.query('ns') ?? '').slice(0, 253),
    outside: visit.query('outside') === 'yes',
  })
  return { title: 'Map', facts, content: mapPage(facts, readMapList(visit)) }
}

/** Shows the map around one object. */
export const workloadMap: Page = async (visit) => {
  const object = requireObject(visit)
  const id = identify(object)
  const { reports } = await askGateways(visit)
  const facts = mapFacts(visit.world.objects, reports, {
    ns: id.namespace,
    outside: visit.query('outside') === 'yes',
    center: id,
  })
  const head = await buildHead(visit, object)
  const content = [workloadHead(head, 'map'), mapDrawing(facts, readMapList(visit))]
  return { title: `${id.name}: map`, facts: { ...head, ...facts }, content }
}

/** Parses JSON from a form field. Throws `invalid_request`. */
function readJsonField(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new PublicError('invalid_request', { message: `${name}: ${(error as Error).message}` })
  }
}

/** Asks a pod of the workload to explain a call, and derives the steps from its answer. */
async function explainCall(
  visit: Visit,
  facts: AccessFacts,
  listed: readonly string[] | undefined,
): Promise<AccessFacts> {
  const { places, session, world } = visit
  const object = requireObject(visit)
  const { tool, claims, arguments: given } = facts.question
  try {
    const caller = claims.trim() === '' ? undefined : readJsonField('Claims', claims)
    const parameters = given.trim() === '' ? {} : readJsonField('Arguments', given)
    if (caller !== undefined && !isObject(caller)) return { ...facts, error: 'Claims must be a JSON object.' }
    const reports = await places.reports(session.viewer, object)
    let explanation: unknown = null
    try {
      explanation = await places.explain(session.viewer, object, { caller, tool, arguments: parameters })
    } catch (error) {
      if (!(error as Error).message.includes('No policies are in force')) throw error
    }
    const { objects } = world
    const steps = accessSteps({ objects, object, question: facts.question, caller, reports, explanation, listed })
    return {
      ...facts,
      steps,
      explanation,
      verdict: steps.some(({ passed }) => passed === false) ? 'denied' : 'allowed',
    }
  } catch (error) {
    if (error instanceof PlaceError && error.kind === 'forbidden') return { ...facts, right: error.message }
    return { ...facts, error: (error as Error).message }
  }
}

/** The most tools in the selection. */
const MOST_NAMES = 500

/** Returns the values for the form: as sent, else from a denied call, else with the viewer's own claims. */
function chooseQuestion(
  visit: Visit,
  object: KubernetesObject,
  call: AuditedCall | undefined,
): AccessFacts['question'] {
  const { form, query, session, tokens } = visit
  if (form !== undefined) {
    const [tool = '', claims = '', given = ''] = ['tool', 'claims', 'arguments'].map((name) => form.get(name) ?? '')
    return { tool, claims, arguments: given }
  }
  const tool = (call?.tool ?? query('tool') ?? '').slice(0, 500)
  const mine = claimsText(tokens.get(session.id, formatKey(identify(object))))
  // The audit log contains no claims. Those of the viewer's own calls are known from their token.
  const isMine = call === undefined || (mine !== '' && JSON.parse(mine).sub === call.sub)
  const claims = isMine ? mine : call.sub === '' ? '' : JSON.stringify({ sub: call.sub })
  return { tool, claims, arguments: '' }
}

/** Shows the page that explains a call. */
export const access: Page = async (visit) => {
  const { form, query, places, session, now } = visit
  const object = requirePart(visit, 'access')
  const [audited, listed, right] = await Promise.all([
    waitBriefly(places.audit(session.viewer, object), visit.isPage),
    waitBriefly(toolNames(visit), visit.isPage),
    waitBriefly(places.missingExplainRight(session.viewer, object), visit.isPage),
  ])
  const lines = audited ?? 'still asking for the log'
  const denied = typeof lines === 'string' ? [] : listDenied(lines)
  const request = form === undefined ? query('request') : undefined
  const call = request === undefined ? undefined : denied.find(({ requestId }) => requestId === request)
  const question = chooseQuestion(visit, object, call)
  const isAsked = right === undefined && (form !== undefined || Boolean(call?.tool))
  const start: AccessFacts = {
    ...(await buildHead(visit, object)),
    tools: (listed ?? []).slice(0, MOST_NAMES),
    question,
    verdict: null,
    steps: [],
    explanation: null,
    error: null,
    right: right ?? null,
    filledFrom: isAsked ? (call ?? null) : null,
    denied,
    deniedMissing: typeof lines === 'string' ? lines : null,
  }
  const facts = isAsked ? await explainCall(visit, start, listed) : start
  const content = accessPage(facts, visit.formToken(`${facts.href}/access`), now)
  return {
    title: `${facts.name}: access`,
    facts,
    content,
    isLive: false,
    status: facts.error?.startsWith('HTTP 413') === true ? 413 : 200,
  }
}

/** Shows the workloads whose calls can be explained, and the calls that were denied lately. */
export const accessHome: Page = async (visit) => {
  const { places, session, now, isPage } = visit
  const { workloads, asked } = listCallable(visit, 'access')
  const logs = await waitBriefly(Promise.all(asked.map((one) => places.audit(session.viewer, one))), isPage)
  const denied = asked.flatMap((one, index) => {
    const lines = logs?.[index]
    return Array.isArray(lines)
      ? listDenied(lines).map((call) => ({ ...call, workload: buildPath(identify(one)) }))
      : []
  })
  const workloadOf = new Map(denied.map((call) => [call.requestId, call.workload]))
  const content: Child = [
    h('h1', {}, 'Access'),
    h('p', { class: 'lead' }, 'Who may call what, and why a call was denied. Choose the workload that is called.'),
    h('h2', {}, 'Workloads'),
    workloadLinks(workloads),
    h('h2', {}, 'Denied lately'),
    denied.length === 0
      ? empty(
          h('p', {}, 'No denied call is known.'),
          h('p', {}, 'Workloads with ', h('code', {}, 'audit.enabled'), ' write denied calls into their audit log.'),
        )
      : deniedTable(
          denied,
          ({ tool, requestId }) =>
            `${workloadOf.get(requestId)}/access?${new URLSearchParams({ tool, request: requestId })}`,
          now,
        ),
  ]
  return { title: 'Access', facts: { workloads, denied }, content }
}

/** The login facts of a workload whose authorization server has not answered in time. */
const STILL_ASKING: LoginFacts = {
  ...{ issuer: null, host: null, resource: null, scopes: [], cimd: null, dcr: null },
  problem: 'Still asking the authorization server.',
}

/** Shows how clients connect to a workload. */
export const connect: Page = async (visit) => {
  const { places, query } = visit
  const object = requirePart(visit, 'connect')
  const registries = object.kind === 'MCPRegistry' ? await listRegistries(visit, object) : []
  const asked = await waitBriefly(loginFacts(visit, object), visit.isPage)
  const facts = connectFacts({
    head: await buildHead(visit, object),
    url: places.publicUrl(object),
    name: query('name')?.slice(0, 64),
    registries,
    login: asked === undefined ? STILL_ASKING : asked,
  })
  return { title: `${facts.name}: connect`, facts, content: connectPage(facts), isLive: asked === undefined }
}

/** The most characters of a registry's name. */
const LONGEST_NAME = 253

/** Returns the names of the registries that a registry server reports; those of its settings where it is not asked. */
export async function listRegistries({ places, session }: Visit, object: KubernetesObject): Promise<readonly string[]> {
  const reports = await places.reports(session.viewer, object)
  const found = reports.flatMap((report) => ('status' in report ? report.status['registries'] : []))
  const names = found.flatMap((one) => (isObject(one) && typeof one['name'] === 'string' ? [one['name']] : []))
  const told = names.length > 0 ? names : declaredRegistries(object)
  return [...new Set(told)].filter((name) => name !== '' && name.length <= LONGEST_NAME).slice(0, 200)
}

/** Shows the manifest of an object. */
export const source: Page = async (visit) => {
  const object = requireObject(visit)
  const facts = sourceFacts(object, await buildHead(visit, object), visit.places.fileOf(object))
  return { title: `${facts.name}: YAML`, facts, content: sourcePage(facts) }
}

const MOST_LINES = 200

/** Shows the latest lines of the audit log. */
export const log: Page = async (visit) => {
  const { places, session, isPage, now } = visit
  const object = requirePart(visit, 'log')
  const head = await buildHead(visit, object)
  const found = (await waitBriefly(places.audit(session.viewer, object), isPage)) ?? 'still asking for the log'
  const lines = typeof found === 'string' ? [] : found.slice(-MOST_LINES).toReversed()
  const facts = {
    ...head,
    lines,
    calls: lines.flatMap((line) => parseCall(line) ?? []),
    missing: typeof found === 'string' ? found : null,
    command:
      places.kind === 'machine' ? null : `kubectl portico logs ${head.kind}/${head.name} --namespace ${head.namespace}`,
  }
  return { title: `${head.name}: log`, facts, content: logPage(facts, now) }
}

export const help: Page = async ({ param }) => {
  const name = param('page')
  const page = Object.hasOwn(helpPages, name) ? helpPages[name] : undefined
  if (page === undefined) throw new PublicError('not_found')
  return { title: page.title, facts: { page: name }, content: page.content, isLive: false }
}
