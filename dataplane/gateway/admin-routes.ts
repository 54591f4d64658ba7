import { Hono } from 'hono'
import type { Caller } from '../identity/caller.ts'
import { type Explanation, type Question, readQuestion } from '../policy/index.ts'
import { readBody } from '../server/body.ts'
import { errorResponse, PublicError } from '../server/errors.ts'
import { checkHost } from '../server/hosts.ts'
import { callNeeds, withNeeds } from './access/call-needs.ts'
import { explainScopes } from './access/scope-rules.ts'
import { promptSubject, resourceSubject, toolSubject } from './access/subjects.ts'
import { findBackends } from './aggregation/shape.ts'
import { reportDefinitions } from './core/definitions-report.ts'
import type { Gateway } from './core/gateway.ts'
import type { Shown } from './core/list-changes.ts'
import { explainCatalog } from './gate/decision.ts'
import type { Setup } from './request/setup.ts'
import { reportUsage } from './usage/report.ts'

const MOST_BYTES = 64 * 1024
/** Only pages from this machine may call, so no host names are allowed. */
const NO_NAMES: ReadonlySet<string> = new Set()

/** Serves the admin routes that only a gateway has: `POST /explain`, `GET /definitions`, `GET /usage`. */
export function adminRoutes(running: () => Gateway): Hono {
  const app = new Hono()
  app.use(async (c, next) => {
    await next()
    c.header('cache-control', 'no-store')
  })
  app.get('/definitions', async (c) => {
    checkHost(NO_NAMES, 'localhost', c.req.header('origin'))
    const options = { backend: c.req.query('backend'), withPages: c.req.query('pages') !== 'none' }
    return c.json(await reportDefinitions(running(), options))
  })
  app.get('/usage', async (c) => {
    checkHost(NO_NAMES, 'localhost', c.req.header('origin'))
    const { usage } = running()
    if (usage === undefined) throw new PublicError('not_found', { message: 'Usage is not counted (usage.enabled).' })
    return c.json(await reportUsage(usage, (name) => c.req.query(name)))
  })
  app.post('/explain', async (c) => {
    // A request of a page has an Origin. A page of another site can reach this listener under its own host name (DNS
    // rebinding).
    checkHost(NO_NAMES, 'localhost', c.req.header('origin'))
    // A page can send other media types without a preflight.
    if (c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase() !== 'application/json')
      throw new PublicError('unsupported_media_type')
    const body = await readBody(c, MOST_BYTES)
    const { shared, setup, gate } = running()
    const { catalog, promptsAndResources } = shared
    return c.json(
      explain(
        { config: setup.config, scopeRules: setup.scopeRules, gate },
        { authorizer: setup.authorizer, catalog, promptsAndResources },
        body.toString(),
      ),
    )
  })
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error))
  return app
}

/**
 * Explains whether the catalog gate, and which policies and scopes, allow or deny the call in `question` (JSON text) in
 * this gateway's current state, and what a caller needs for it. Nothing is called, and the claims may be invented.
 * Throws `invalid_request`, and `not_found` if callers are anonymous and there are neither policies nor a catalog gate.
 */
function explain(
  { config, scopeRules, gate }: Pick<Setup, 'config' | 'scopeRules'> & Pick<Gateway, 'gate'>,
  shown: Shown,
  question: string,
): Explanation & { readonly exists: boolean } {
  const { authorizer, catalog } = shown
  const isOpen = config.incomingAuth.type === 'anonymous'
  if (isOpen && authorizer === undefined && scopeRules === undefined && gate === undefined)
    throw new PublicError('not_found', { message: 'No policies are in force.' })
  const asked = readQuestion(parseBody(question))
  if (typeof asked === 'string') throw new PublicError('invalid_request', { message: asked })
  const caller = buildCaller(asked)
  const explanation = authorizer?.explain(caller, findSubject(shown, asked), asked.arguments)
  const steps = catalog.composites.get(asked.id)?.workflow.tools ?? []
  const tools =
    asked.type === 'Tool' ? [asked.id, ...steps.map((tool) => catalog.stepTools.get(tool)?.name ?? tool)] : []
  const stepBackends = steps.map((tool) => catalog.stepTools.get(tool)?.route.backend)
  const backends = [findSubject(shown, asked).backend, ...stepBackends].filter((name) => name !== undefined)
  // This catalog lacks the lists that differ for each caller.
  const likely = backends.length === 0 ? findBackends(config, asked) : backends
  const needs = callNeeds(config, likely, scopeRules?.neededFor(tools))
  const scoped = withNeeds(explainScopes(scopeRules, { caller, tools }, explanation), needs)
  if (gate === undefined) return { ...scoped, exists: exists(shown, asked) }
  const { enforces, decision } = gate
  const inCatalog = { members: decision.members, backends, claims: gate.claimsOf(caller), enforces }
  return { ...explainCatalog(inCatalog, scoped), exists: exists(shown, asked) }
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new PublicError('invalid_request', { message: 'The body is not valid JSON.' })
  }
}

function buildCaller({ caller }: Question): Caller {
  if (caller === undefined) return { kind: 'anonymous' }
  const [subject, claims] = [caller['sub'] as string, caller]
  // The question's claims are those that policies read, whichever token they would come from.
  return { kind: 'authenticated', issuer: '', subject, claims, expiresAt: 0, policyIdentity: { subject, claims } }
}

function findSubject({ catalog, promptsAndResources }: Shown, { type, id }: Question) {
  if (type === 'Tool') return toolSubject(catalog, id, catalog.routes.get(id))
  return type === 'Prompt' ? promptSubject(promptsAndResources, id) : resourceSubject(promptsAndResources, id)
}

/** Tells whether the item exists, which a caller would not be told. */
function exists({ catalog, promptsAndResources }: Shown, { type, id }: Question): boolean {
  if (type === 'Tool') return catalog.routes.has(id) || catalog.composites.has(id)
  return type === 'Prompt'
    ? promptsAndResources.prompts.has(id)
    : resourceSubject(promptsAndResources, id).backend !== undefined
}
