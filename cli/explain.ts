import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { gateDefaults } from '../crds/settings/gateway/defaults.ts'
import { isObject } from '../crds/settings/json.ts'
import type { AuthzConfig, GatewayConfig } from '../dataplane/config/gateway.ts'
import { callNeeds, withNeeds } from '../dataplane/gateway/access/call-needs.ts'
import { explainScopes, readScopeRules } from '../dataplane/gateway/access/scope-rules.ts'
import { findBackends } from '../dataplane/gateway/aggregation/shape.ts'
import { listMembers } from '../dataplane/gateway/gate/catalog-gate.ts'
import { decideMembers, explainCatalog, type Snapshot } from '../dataplane/gateway/gate/decision.ts'
import { matchMembers } from '../dataplane/gateway/gate/match.ts'
import { type GatePage, type KnownClaims, readGatePage } from '../dataplane/gateway/gate/rows.ts'
import { joinPages } from '../dataplane/gateway/gate/snapshot-file.ts'
import { anonymous, type Caller } from '../dataplane/identity/caller.ts'
import {
  type CallNeed,
  type Explanation,
  isCaller,
  Policies,
  type Question,
  readQuestion,
} from '../dataplane/policy/index.ts'
import { inspectManifests, type Planned } from '../operator/cluster/files/index.ts'
import { type Command, type Given, type Io, type Option, UsageError } from './command.ts'
import { type Asked, explainAssertion, formatRedeemable, readAssertion } from './explain-assertion.ts'
import { hasErrors, printFindings } from './findings.ts'
import { groupOption, readApiGroup, readManifestPaths } from './options/manifests.ts'
import { defaultImage } from './package-info.ts'

interface Guarded {
  readonly name: string
  readonly config: GatewayConfig
}

interface Assumed {
  readonly backend: string | undefined
  readonly hints: Readonly<Record<string, boolean>>
}

const ACTIONS = { Tool: 'call_tool', Prompt: 'get_prompt', Resource: 'read_resource' } as const

function listGuarded({ manifest, plan }: Planned): readonly Guarded[] {
  const { kind, namespace, name } = manifest.id
  const children = plan.children === 'hold' ? [] : plan.children
  return children.flatMap((child) => {
    const data = child.kind === 'ConfigMap' ? child['data'] : undefined
    const text = isObject(data) ? data['gateway.yaml'] : undefined
    const config = typeof text === 'string' ? (parse(text, { uniqueKeys: false }) as Guarded['config']) : undefined
    return config === undefined ? [] : [{ name: `${kind} ${namespace}/${name}`, config }]
  })
}

/** Tells whether policies or scopes decide a call, or it needs a key or an account of the caller's own. */
const isGuarded = ({ config }: Guarded, { id }: Question, { backend }: Assumed): boolean =>
  (config.authz ?? config.incomingAuth.scopeRules) !== undefined ||
  callNeeds(config, findBackends(config, { id, backend })).some(({ kind }) => kind !== 'login')

function readJson(option: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`--${option}: ${(error as Error).message}`)
  }
}

/** Builds the question from the options. Throws a UsageError for an invalid one. */
export function buildQuestion(given: Given): Question {
  const file = given.text('caller')
  const caller = file === undefined ? undefined : readJson('caller', readFileSync(file, 'utf8'))
  if (file !== undefined && !isCaller(caller)) throw new UsageError('--caller: must hold claims, with a sub')
  const asked = ['tool', 'prompt', 'resource'].map((name) => [name, given.text(name)] as const)
  const question = readQuestion({
    caller,
    ...Object.fromEntries(asked),
    arguments: readJson('arguments', given.text('arguments') ?? '{}'),
  })
  if (typeof question === 'string') throw new UsageError(question)
  return question
}

function readAssumed(given: Given): Assumed {
  const annotations = readJson('annotations', given.text('annotations') ?? '{}')
  if (!isObject(annotations)) throw new UsageError('--annotations: must be an object')
  const hints = Object.entries(annotations).filter((hint): hint is [string, boolean] => typeof hint[1] === 'boolean')
  return { backend: given.text('backend'), hints: Object.fromEntries(hints) }
}

function explainWorkload({ config }: Guarded, question: Question, assumed: Assumed, registry?: Snapshot): Explanation {
  const { caller: claims, type, id } = question
  const caller: Caller =
    claims === undefined
      ? anonymous
      : { kind: 'authenticated', issuer: '', subject: claims['sub'] as string, claims, expiresAt: 0 }
  const rules = readScopeRules(config, config.resourceUrl ?? '')
  const tools = type === 'Tool' ? [id] : []
  const explanation = config.authz && judgeWorkload(config, config.authz, question, assumed)
  const needs = callNeeds(config, findBackends(config, { id, backend: assumed.backend }), rules?.neededFor(tools))
  const scoped = withNeeds(explainScopes(rules, { caller, tools }, explanation), needs)
  return withCatalog(config, registry, { caller: claims, id, backend: assumed.backend }, scoped)
}

function judgeWorkload(
  config: GatewayConfig,
  authz: AuthzConfig,
  { caller, type, id, arguments: given }: Question,
  { backend, hints }: Assumed,
): Explanation {
  const policies = new Policies(authz, config.name)
  const principal = policies.principalOf(caller === undefined ? 'anonymous' : (caller['sub'] as string), caller ?? {})
  const own = config.role === 'proxy' ? config.backends[0]?.name : undefined
  const subject = { action: ACTIONS[type], type, id, backend: backend ?? own, hints, key: '' }
  return policies.explain(principal, subject, given)
}

const formatPolicyName = ({ policy, id }: { readonly policy: string; readonly id?: string }): string =>
  id === undefined ? policy : `${policy} (${id})`

function formatNeed(need: CallNeed): string {
  const where = need.links.join(', ')
  switch (need.kind) {
    case 'login':
      return `a token${need.scopes.length === 0 ? '' : ` with the scopes ${need.scopes.join(' ')}`}${where && `, of ${where}`}`
    case 'key':
      return `the caller’s own for ${need.title}, entered at ${where}${need.helpUrl === undefined ? '' : `; how to get one: ${need.helpUrl}`}`
    case 'account':
      return `the caller’s own at ${need.host}; the answer to the first call has the link; what is linked: ${where}`
  }
}

/** Prints the decision of the policies of one workload, and what the caller needs besides. */
export function printExplanation(
  name: string,
  { allowed, reason, policies, errors, scopes, catalog, policy, needs = [] }: Explanation,
  io: Io,
): void {
  io.out(`${name}: ${allowed ? 'allowed' : 'denied'}: ${reason}\n`)
  if (catalog !== undefined) io.out(`  catalog: ${catalog.allowed ? 'allowed' : 'denied'}: ${catalog.reason}\n`)
  if (policy !== undefined) io.out(`  policies: ${policy.allowed ? 'allowed' : 'denied'}: ${policy.reason}\n`)
  if (scopes !== undefined)
    io.out(`  scopes: needs ${scopes.needed.join(' ')}; the token has ${scopes.held.join(' ') || 'none'}\n`)
  for (const { effect, text, ...policy } of policies) io.out(`  ${effect}: ${formatPolicyName(policy)}: ${text}\n`)
  for (const { message, ...policy } of errors) io.out(`  error: ${formatPolicyName(policy)}: ${message}\n`)
  for (const need of needs) io.out(`  ${need.kind}: ${formatNeed(need)}\n`)
}

function explainAssertionFile(given: Given, io: Io): number {
  const assertion = readAssertion(given.text('assertion') as string)
  const asked: Asked = { issuer: given.text('issuer'), resource: given.text('resource'), scope: given.text('scope') }
  const paths = readManifestPaths(given)
  const { planned, findings } = inspectManifests(paths, { group: readApiGroup(given, io), image: defaultImage })
  if (hasErrors(findings)) {
    printFindings(findings, io)
    return 1
  }
  const all = planned.flatMap(listGuarded).flatMap(({ name, config }) => {
    const { authServer } = config
    if (authServer?.trustedIssuers === undefined) return []
    return [{ workload: name, ...explainAssertion({ ...config, authServer }, assertion, asked, Date.now() / 1000) }]
  })
  if (all.length === 0) throw new Error('no object in these files has an authorization server with trustedIssuers')
  if (given.text('output') === 'json') io.out(`${JSON.stringify(all)}\n`)
  else for (const { workload, ...found } of all) io.out(formatRedeemable(workload, found))
  return all.some(({ redeemable }) => redeemable) ? 0 : 1
}

export const questionOptions = {
  caller: { type: 'string', value: 'FILE', description: 'JSON file of the caller’s claims. Absent: anonymous.' },
  tool: { type: 'string', value: 'NAME', description: 'The tool, as clients know it.' },
  prompt: { type: 'string', value: 'NAME', description: 'The prompt, in place of a tool.' },
  resource: { type: 'string', value: 'URI', description: 'The resource, in place of a tool.' },
  arguments: { type: 'string', value: 'JSON', description: 'Arguments of the call.' },
} as const satisfies Readonly<Record<string, Option>>

export const command: Command = {
  name: 'explain',
  synopsis: 'DIR|FILE … --tool NAME [--caller FILE] [options] | --assertion FILE [--issuer NAME]',
  about: `Says which policy allows or denies a call, for every workload in these manifests that has policies or scopeRules. No backend
is called: name the tool's backend and annotations with --backend and --annotations. Exits 1 if the call is denied. It also says
which token the caller needs, and which key or account of their own, with the link. A running gateway answers the same about
its own tools on its admin listener: POST /explain. With --registry it also says whether the
catalog of a gateway with catalogGate shows the tool to the caller.

With --assertion it says which rule admits an assertion of a trusted issuer, and what the token would allow. The assertion is
not verified. Exits 1 if no authorization server would redeem it.`,
  options: {
    ...questionOptions,
    backend: { type: 'string', value: 'NAME', description: 'The backend that has it.' },
    assertion: { type: 'string', value: 'FILE', description: 'File with an assertion: a JWT, or its claims as JSON.' },
    issuer: {
      type: 'string',
      value: 'NAME',
      description: 'Name of the trusted issuer. Absent: the one in the assertion.',
    },
    scope: { type: 'string', value: 'SCOPES', description: 'Scopes to request with the assertion.' },
    registry: {
      type: 'string',
      value: 'FILE',
      description: 'What a registry tells gateways (GET /v1/registries/NAME/gate): adds the decision of the catalog.',
    },
    annotations: { type: 'string', value: 'JSON', description: 'Annotations of the tool, such as readOnlyHint.' },
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
    'api-group': groupOption,
  },
  async run(given, io) {
    if (given.text('assertion') !== undefined) return explainAssertionFile(given, io)
    const question = buildQuestion(given)
    const assumed = readAssumed(given)
    const paths = readManifestPaths(given)
    const { planned, findings } = inspectManifests(paths, { group: readApiGroup(given, io), image: defaultImage })
    if (hasErrors(findings)) {
      printFindings(findings, io)
      return 1
    }
    const file = given.text('registry')
    const registry = file === undefined ? undefined : readRegistry(file)
    const isAsked = (one: Guarded) =>
      isGuarded(one, question, assumed) || (registry !== undefined && one.config.catalogGate !== undefined)
    const guarded = planned.flatMap(listGuarded).filter(isAsked)
    if (guarded.length === 0)
      throw new Error(
        `no object in these files has policies or scopes of tools, or wants a key or account for this call${registry === undefined ? '' : ', or a catalog gate'}`,
      )
    const all = guarded.map((one) => ({ workload: one.name, ...explainWorkload(one, question, assumed, registry) }))
    if (given.text('output') === 'json') io.out(`${JSON.stringify(all)}\n`)
    else for (const { workload, ...explanation } of all) printExplanation(workload, explanation, io)
    return all.every(({ allowed }) => allowed) ? 0 : 1
  },
}

/** Reads a file with the answer of a registry's gate, or with a list of its pages. Throws a UsageError for another. */
export function readRegistry(file: string): Snapshot {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    const known: KnownClaims = new Map()
    const pages = (Array.isArray(value) ? value : [value]).map((page) => readGatePage(page, known))
    if (pages.length === 0) throw new Error('there is no page')
    return joinPages(pages as [GatePage, ...GatePage[]])
  } catch (error) {
    throw new UsageError(`--registry: ${(error as Error).message}`)
  }
}

/** Adds the catalog's answer in the gateway of this configuration. Throws a UsageError if no backend is known. */
export function withCatalog(
  { catalogGate, ...config }: GatewayConfig,
  registry: Snapshot | undefined,
  { caller, id, backend }: Pick<Question, 'caller' | 'id'> & { readonly backend: string | undefined },
  explanation: Explanation,
): Explanation {
  if (registry === undefined || catalogGate === undefined) return explanation
  const { match = gateDefaults.match, mode } = catalogGate
  const [only, ...more] = findBackends(config, { id, backend })
  if (only === undefined || more.length > 0)
    throw new UsageError('--registry: say which backend has it: --backend NAME')
  const asked = listMembers(config, catalogGate)
  const matched = { rules: registry, matches: matchMembers(asked, registry.rows, match) }
  const members = decideMembers(asked, [{ name: 'of the file', matched }])
  const question = { members, backends: [only], claims: caller ?? {}, enforces: mode === 'enforce' }
  return explainCatalog(question, explanation)
}
