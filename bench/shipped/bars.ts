/**
 * Compares newer capabilities with the same work without them: pins of 1,000 tools, the catalog gate with 50 sets of
 * members, 50 scope rules, proofs of possession, users' keys, assertions and machines at the token endpoint, skills. Each
 * ratio of processor time per request has a bar. Exits with 1 if a bar is missed by more than the standard error.
 * Usage: bars.ts [--only NAME,…: groups] [--bar TEXT: only bars with this in their name] [--starts 5]
 * [--seconds 2: measured of each case] [--warm 6000: requests of each before]
 */
import { createHash, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Client } from 'undici'
import { definitionDigest } from '../../crds/settings/definition-digest.ts'
import { startGateRegistry } from '../../test/support/gateway/gate-registry.ts'
import { buildInjectingBackend } from '../../test/support/gateway/login-gateway.ts'
import { REDIRECT, SCOPES, TestClient } from '../../test/support/identity/auth-server.ts'
import { enterKey, keyLinkIn } from '../../test/support/identity/key-entry.ts'
import { type LoginProvider, startLoginProvider } from '../../test/support/identity/login-provider.ts'
import { freePort } from '../../test/support/network/free-port.ts'
import { withError } from '../gateway/estimate.ts'
import { type LoadRequest, send } from '../gateway/load.ts'
import { type Part, start as startPart } from '../gateway/parts.ts'
import { modernRequest } from '../gateway/requests.ts'
import { type Bench, runBench } from './bench.ts'
import { AUDIENCE, buildOidc, type Surroundings, scopeRules, startSurroundings } from './features.ts'
import { type Gateway, startGateway } from './gateway.ts'
import { computeRatio } from './measure.ts'
import { readUsage } from './process.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    bar: { type: 'string', default: '' },
    starts: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    warm: { type: 'string', default: '6000' },
  },
})

const WORKERS = 32
/** In seconds. */
const TURN = 0.5
/** Requests per turn that are prepared before it. */
const PREPARED = 2_000
const MEMBERS = 8
const SETS = 50
const BACKEND = new URL('../gateway/bare-backend.ts', import.meta.url)

interface Case {
  readonly gateway: Gateway
  /** Prepares requests outside of the measurement, if each takes the client long. */
  readonly prepare?: (requests: number) => void | Promise<void>
  /** The path of the requests; absent: the MCP endpoint. */
  readonly path?: string
  request(worker: number, count: number): LoadRequest
}

/** Work with a capability and without, and the highest ratio of their costs. */
interface Bar {
  readonly name: string
  readonly most: number
  readonly without: Case
  readonly with: Case
  /** Requests of a turn, and four times as many before the first; absent: the usual ones. */
  readonly turn?: number
}

type Backends = Readonly<Record<'plain' | 'many' | 'skills', readonly Part[]>>

type Group = (bench: Bench, backends: Backends, around: Surroundings) => Promise<readonly Bar[]>

const bearer = (token: string) => ['authorization', `Bearer ${token}`]
const nameBackends = (parts: readonly Part[], more: object = {}) =>
  parts.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp`, ...more }))
const buildCall = (name: string, worker: number, count: number, headers: readonly string[] = []): LoadRequest => {
  const message = `w${worker}-c${count}-${'some text to carry along '.repeat(4)}`
  return modernRequest('tools/call', { name, arguments: { message } }, { expects: message, name, headers })
}
const toolName = (worker: number, count: number) => `b${(worker + count) % 2}_tool_${count % 20}`
const buildList = (headers: readonly string[] = []): LoadRequest =>
  modernRequest('tools/list', {}, { expects: 'tool_19', headers })
const calls = (gateway: Gateway): Case => ({
  gateway,
  request: (worker, count) => buildCall(toolName(worker, count), worker, count),
})
const lists = (gateway: Gateway): Case => ({ gateway, request: () => buildList() })

const groups: Readonly<Record<string, Group>> = {
  async pins({ gateway }, { many }) {
    const tools = Object.fromEntries(
      (await listTools(many[0] as Part)).map((tool) => [tool.name, [definitionDigest(JSON.stringify(tool))]]),
    )
    const without = await gateway({ backends: nameBackends(many) })
    const pinned = await gateway({ backends: nameBackends(many, { pinning: { mode: 'enforce', pins: { tools } } }) })
    return [
      { name: 'tools/list, 1,000 pinned tools', most: 1 / 0.95, without: lists(without), with: lists(pinned) },
      { name: 'tools/call, 1,000 pinned tools', most: 1 / 0.98, without: calls(without), with: calls(pinned) },
    ]
  },

  async gate({ gateway }, { plain }, around) {
    const url = (index: number) => `${(plain[index % 2] as Part).origin}/mcp/${index}`
    const members = Array.from({ length: MEMBERS }, (_, index) => index)
    const registry = await startGateRegistry(
      members.map((index) => ({
        name: `com.example/b${index}`,
        remotes: [{ type: 'streamable-http', url: url(index) }],
        claims: { members: `b${index}` },
      })),
    )
    /** The members that a caller sees: fifty different sets. */
    const listVisible = (caller: number) => members.filter((index) => ((caller % SETS) + 1) & (1 << index))
    const tokens = await Promise.all(
      around.subjects.map((sub, caller) =>
        around.mint(sub, { members: listVisible(caller).map((index) => `b${index}`) }),
      ),
    )
    const config = {
      backends: members.map((index) => ({ name: `b${index}`, url: url(index) })),
      incomingAuth: buildOidc(around),
    }
    const registries = [{ name: 'house', url: registry.url, registry: 'main' }]
    const without = await gateway(config)
    const gated = await gateway({ ...config, catalogGate: { mode: 'enforce', registries } })
    const caller = (worker: number, count: number) => (worker + count * WORKERS) % tokens.length
    const buildCases = (gateway: Gateway): Record<'list' | 'call', Case> => ({
      list: { gateway, request: (worker, count) => buildList(bearer(tokens[caller(worker, count)] as string)) },
      call: {
        gateway,
        request(worker, count) {
          const who = caller(worker, count)
          return buildCall(`b${listVisible(who)[0]}_tool_${count % 20}`, worker, count, bearer(tokens[who] as string))
        },
      },
    })
    // Only calls are compared: callers who see fewer members get shorter lists.
    return [
      {
        name: `tools/call, ${SETS} sets of members`,
        most: 1 / 0.95,
        without: buildCases(without).call,
        with: buildCases(gated).call,
      },
    ]
  },

  async scopes({ gateway }, { plain }, around) {
    const auth = buildOidc(around)
    const buildCase = (gateway: Gateway): Case => ({
      gateway,
      request: (worker, count) =>
        buildCall(
          toolName(worker, count),
          worker,
          count,
          bearer(around.tokens[worker % around.tokens.length] as string),
        ),
    })
    const without = await gateway({ backends: nameBackends(plain), incomingAuth: auth })
    const ruled = await gateway({ backends: nameBackends(plain), incomingAuth: { ...auth, scopeRules } })
    return [{ name: 'tools/call, 50 scope rules', most: 1 / 0.97, without: buildCase(without), with: buildCase(ruled) }]
  },

  async proofs({ gateway }, { plain }, around) {
    const resourceUrl = `${AUDIENCE}/mcp`
    const auth = buildOidc(around)
    const without = await gateway({ backends: nameBackends(plain), resourceUrl, incomingAuth: auth })
    const bound = await gateway({
      backends: nameBackends(plain),
      resourceUrl,
      incomingAuth: { ...auth, dpop: { mode: 'required', replay: 'replica', algs: ['ES256', 'RS256'] } },
    })
    const bars = [
      ['ES256', 1 / 0.25],
      ['RS256', 1 / 0.5],
    ] as const
    const plainCalls: Case = {
      gateway: without,
      request: (worker, count) =>
        buildCall(
          toolName(worker, count),
          worker,
          count,
          bearer(around.tokens[worker % around.tokens.length] as string),
        ),
    }
    return Promise.all(
      bars.map(async ([alg, most]) => {
        const holders = await Promise.all(around.subjects.slice(0, WORKERS).map((sub) => keyHolder(alg, sub, around)))
        const ready: (readonly string[])[][] = holders.map(() => [])
        const prepare = (requests: number) => {
          for (const [worker, holder] of holders.entries())
            while ((ready[worker] as unknown[]).length < requests / WORKERS + 1)
              ready[worker]?.push(holder(resourceUrl))
        }
        const request = (worker: number, count: number) =>
          buildCall(toolName(worker, count), worker, count, ready[worker]?.pop() as readonly string[])
        const proven = { gateway: bound, prepare, request }
        return { name: `tools/call, proofs by ${alg}`, most, without: plainCalls, with: proven }
      }),
    )
  },

  async keys(bench, { plain }) {
    // The user's key is sent in the same header as the provider's token.
    const injected = await loginCalls(bench, plain, 'corp')
    const ofKey = await loginCalls(bench, plain, 'jira')
    return [{ name: 'tools/call with a user’s key', most: 1.05, without: injected, with: ofKey }]
  },

  async grants(bench) {
    const matchers = Array.from({ length: 50 }, (_, index) => ({
      name: `rule-${index}`,
      matcher: `"${index === 49 ? 'eng' : `team-${index}`}" in claims.groups`,
    }))
    // Marks of assertions are kept for each gateway: one for each bar.
    const [codes, subjects, ruled] = await Promise.all([
      tokenEndpoint(bench, matchers.slice(-1)),
      tokenEndpoint(bench, matchers.slice(-1)),
      tokenEndpoint(bench, matchers),
    ])
    const turn = 250
    return [
      {
        ...{ name: 'redeeming an ID-JAG beside a code', most: 1 / 0.8, turn },
        ...{ without: codes.codes(), with: codes.assertions(1_000) },
      },
      {
        ...{ name: 'redeeming for 10,000 subjects beside one', most: 1.1, turn },
        ...{ without: subjects.assertions(1), with: subjects.assertions(10_000) },
      },
      {
        ...{ name: 'redeeming by 50 matchers beside one', most: 1.5, turn },
        ...{ without: codes.assertions(1_000), with: ruled.assertions(1_000) },
      },
      {
        ...{ name: 'a machine by its key beside a secret', most: 1 / 0.7, turn: 400 },
        ...{ without: ruled.machine('by-secret'), with: ruled.machine('by-key') },
      },
    ]
  },

  async skills({ gateway }, { plain, skills }) {
    const without = await gateway({ backends: nameBackends(plain) })
    const both = await gateway({ backends: nameBackends(skills) })
    const read = (uri: string): Case => ({
      gateway: both,
      request: () => modernRequest('resources/read', { uri }, { expects: 'The text of a skill', name: uri }),
    })
    const skillList: Case = { gateway: both, request: () => modernRequest('skills/list', {}, { expects: 'skill-9' }) }
    await sameLength(lists(both), skillList)
    return [
      { name: 'skills/list beside tools/list', most: 1.2, without: lists(both), with: skillList },
      {
        name: 'resources/read of a skill’s file',
        most: 1.1,
        without: read('file:///plain.md'),
        with: read('skill://b0/skill-3/SKILL.md'),
      },
      { name: 'tools/call beside skills', most: 1.01, without: calls(without), with: calls(both) },
    ]
  },
}

async function loginCalls({ shipped, directory }: Bench, backends: readonly Part[], provider: string): Promise<Case> {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const resource = `${issuer}/mcp`
  const corp = await startLoginProvider([`${issuer}/oauth/callback`])
  const secretFile = `corp-${port}`
  await writeFile(join(directory, secretFile), corp.client.secret)
  const { id: clientId } = corp.client
  const scopes = ['openid', 'profile', 'email']
  const oidcConfig = { issuerUrl: corp.issuer, clientId, clientSecretFile: secretFile, scopes }
  const config = {
    backends: backends.map(({ origin }, index) => buildInjectingBackend(`b${index}`, `${origin}/mcp`, provider)),
    resourceUrl: resource,
    incomingAuth: { type: 'oidc', oidc: { issuer, audience: resource, scopes: ['tools:call'] } },
    authServer: {
      issuer,
      scopes: SCOPES,
      upstreamProviders: [
        { name: 'corp', type: 'oidc', oidcConfig },
        { name: 'jira', type: 'key', keyConfig: { title: 'Jira', maxLength: 1024 } },
      ],
    },
  }
  const gateway = await startGateway(shipped, directory, config, {}, `127.0.0.1:${port}`)
  logins.push(corp)
  const client = await TestClient.register(issuer)
  const token = (await client.login()).access_token
  const request = (worker: number, count: number) => buildCall(toolName(worker, count), worker, count, bearer(token))
  if (provider === 'jira') {
    const { headers, body } = request(0, 0)
    const answer = await fetch(resource, { method: 'POST', headers: pairHeaders(headers), body })
    await enterKey(client.agent, keyLinkIn(await answer.json()), 'k'.repeat(900))
  }
  return { gateway, request }
}

interface TokenEndpoint {
  /** Redemptions of codes, of logins that are made beforehand. */
  codes(): Case
  /** Redemptions of ID-JAGs about so many people. */
  assertions(people: number): Case
  /** Grants of `client_credentials` to a client that authenticates so. */
  machine(client: 'by-secret' | 'by-key'): Case
}

/** Starts a gateway with an authorization server that redeems what is in the group `eng`, by these rules. */
async function tokenEndpoint({ shipped, directory }: Bench, rules: readonly object[]): Promise<TokenEndpoint> {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const resource = `${issuer}/mcp`
  const corp = await startLoginProvider([`${issuer}/oauth/callback`])
  corp.user = ({ headers: from }) => String(from['x-person'])
  logins.push(corp)
  const secretFile = `corp-${port}`
  const secret = 's'.repeat(43)
  await writeFile(join(directory, secretFile), corp.client.secret)
  await writeFile(join(directory, 'client'), secret)
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = { ...own.publicKey.export({ format: 'jwk' }), kid: 'own', alg: 'ES256', use: 'sig' }
  await writeFile(join(directory, `own-${port}.json`), JSON.stringify({ keys: [jwk] }))
  const { id: clientId } = corp.client
  const oidcConfig = { issuerUrl: corp.issuer, clientId, clientSecretFile: secretFile, scopes: ['openid'] }
  const granted = { allowedResources: [resource], scopes: ['tools:call'] }
  const config = {
    backends: [],
    resourceUrl: resource,
    // Logins of one address are limited: each is of another one.
    trustProxyHeaders: true,
    incomingAuth: { type: 'oidc', oidc: { issuer, audience: resource, scopes: ['tools:call'] } },
    authServer: {
      issuer,
      scopes: SCOPES,
      insecureAllowConfidentialOverLoopbackHTTP: true,
      upstreamProviders: [{ name: 'corp', type: 'oidc', oidcConfig }],
      trustedIssuers: [{ name: 'corp', issuerUrl: corp.issuer }],
      delegateClients: [{ clientId: 'desktop', clientSecretFile: 'client', audiences: [resource], scopes: SCOPES }],
      inboundGrants: {
        jwtBearer: {
          issuerPolicies: [
            {
              issuerRef: 'corp',
              maxAssertionAge: '10m',
              claims: { groups: 'groups' },
              subjectRules: rules.map((rule) => ({ ...rule, ...granted })),
            },
          ],
        },
        clientCredentials: {
          clients: [
            { clientId: 'by-secret', clientSecretFile: 'client', ...granted },
            { clientId: 'by-key', jwksFile: `own-${port}.json`, ...granted },
          ],
        },
      },
    },
  }
  const gateway = await startGateway(shipped, directory, config, {}, `127.0.0.1:${port}`)
  const registered = await TestClient.register(issuer)
  const path = '/oauth/token'
  const headers = ['content-type', 'application/x-www-form-urlencoded']
  const buildAddress = (index: number) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`
  const form = (fields: Readonly<Record<string, string>>, index = 0): LoadRequest => ({
    headers: [...headers, 'x-forwarded-for', buildAddress(index)],
    body: new URLSearchParams(fields).toString(),
    expects: '"access_token"',
  })
  /** Sends what `make` has made beforehand, so many at a time. */
  const prepareCase = (atATime: number, make: (index: number) => Promise<LoadRequest>): Case => {
    const ready: LoadRequest[] = []
    let createdCount = 0
    return {
      gateway,
      path,
      async prepare(requests) {
        while (ready.length < requests + WORKERS)
          ready.push(...(await Promise.all(Array.from({ length: atATime }, () => make(createdCount++)))))
      },
      request: () => ready.pop() as LoadRequest,
    }
  }
  return {
    codes: () =>
      prepareCase(8, async (index) => {
        const client = new TestClient(issuer, registered.id)
        client.agent.headers['x-forwarded-for'] = buildAddress(index)
        client.agent.headers['x-person'] = `person-${index % 1_000}`
        // All networks together have 90 logins a second.
        await setTimeout(100)
        const code = (await client.authorize()).get('code') as string
        const fields = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, client_id: client.id }
        return form({ ...fields, code_verifier: client.verifier })
      }),
    assertions: (people) =>
      prepareCase(64, async (index) => {
        const claims = { aud: issuer, client_id: 'desktop', sub: `person-${index % people}`, groups: ['all', 'eng'] }
        const assertion = await corp.mint(claims)
        const grant_type = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
        return form({ grant_type, assertion, client_id: 'desktop', client_secret: secret })
      }),
    machine: (client) =>
      prepareCase(64, async (index) => {
        const grant = { grant_type: 'client_credentials', resource, client_id: client }
        if (client === 'by-secret') return form({ ...grant, client_secret: secret }, index)
        // All networks together have 180 assertions of clients a second.
        await setTimeout(400)
        const iat = Math.floor(Date.now() / 1000)
        const claims = { iss: client, sub: client, aud: issuer, jti: randomUUID(), iat, exp: iat + 300 }
        const text = `${encode({ alg: 'ES256', kid: 'own' })}.${encode(claims)}`
        const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
        return form({ ...grant, client_assertion_type, client_assertion: signAssertion(text, own.privateKey) }, index)
      }),
  }
}

const logins: LoginProvider[] = []

const pairHeaders = (headers: readonly string[]) =>
  Array.from({ length: headers.length / 2 }, (_, index) => headers.slice(index * 2, index * 2 + 2)) as [
    string,
    string,
  ][]

/** Checks that both answers have the same length. */
async function sameLength(...both: readonly Case[]): Promise<void> {
  const lengths = await Promise.all(
    both.map(async ({ gateway, request }) => {
      const { headers, body } = request(0, 0)
      const pairs = Array.from({ length: headers.length / 2 }, (_, index) => headers.slice(index * 2, index * 2 + 2))
      const answer = await fetch(`${gateway.origin}/mcp`, {
        method: 'POST',
        headers: pairs as [string, string][],
        body,
      })
      return (await answer.text()).length
    }),
  )
  console.log(`tools/list has ${lengths[0]} bytes, skills/list ${lengths[1]}`)
}

async function listTools({ origin }: Part): Promise<readonly { readonly name: string }[]> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(origin, {
    method: 'POST',
    headers,
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  })
  return ((await answer.json()) as { result: { tools: { name: string }[] } }).result.tools
}

/** Returns the headers of a request with a fresh proof (RFC 9449). */
type Holder = (url: string) => readonly string[]

async function keyHolder(alg: 'ES256' | 'RS256', subject: string, around: Surroundings): Promise<Holder> {
  const { publicKey, privateKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : generateKeyPairSync('rsa', { modulusLength: 2048 })
  const jwk = publicKey.export({ format: 'jwk' })
  const members =
    alg === 'ES256' ? { crv: jwk.crv, kty: jwk.kty, x: jwk.x, y: jwk.y } : { e: jwk.e, kty: jwk.kty, n: jwk.n }
  const jkt = computeDigest(JSON.stringify(members))
  const token = await around.mint(subject, { cnf: { jkt } })
  const head = encode({ typ: 'dpop+jwt', alg, jwk: members })
  const ath = computeDigest(token)
  return (url) => {
    const claims = { jti: randomUUID(), htm: 'POST', htu: url, iat: Math.floor(Date.now() / 1000), ath }
    return ['authorization', `DPoP ${token}`, 'dpop', signAssertion(`${head}.${encode(claims)}`, privateKey)]
  }
}

const computeDigest = (text: string) => createHash('sha256').update(text).digest('base64url')
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const signAssertion = (text: string, key: KeyObject) =>
  `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`

/** The work of one case, on its own connections. */
class Load {
  readonly #case: Case
  readonly #clients: readonly Client[]
  #count = 0

  constructor(one: Case) {
    this.#case = one
    this.#clients = Array.from({ length: WORKERS }, () => new Client(one.gateway.origin, { pipelining: 1 }))
  }

  async run({ seconds = 120, requests = Number.POSITIVE_INFINITY }): Promise<number> {
    const { gateway, request, prepare, path } = this.#case
    const each = Math.ceil(requests / WORKERS)
    await prepare?.(requests)
    const before = readUsage(gateway.pid).cpu
    const until = performance.now() + seconds * 1000
    let sent = 0
    await Promise.all(
      this.#clients.map(async (client, worker) => {
        for (let own = 0; performance.now() < until && own < each; own++) {
          sent++
          await send(client, request(worker, this.#count++), path)
        }
      }),
    )
    return (readUsage(gateway.pid).cpu - before) / sent
  }

  close = () => Promise.all(this.#clients.map((client) => client.close()))
}

async function measure(bars: readonly Bar[]): Promise<ReadonlyMap<string, readonly [without: number, withIt: number]>> {
  const found = new Map<string, [number, number]>()
  for (const { name, without, with: withIt, turn: own } of bars) {
    const pair = [new Load(without), new Load(withIt)] as const
    const isPrepared = withIt.prepare !== undefined
    const warm = Math.min(Number(values.warm), 4 * (own ?? Number.POSITIVE_INFINITY))
    for (const one of pair) await one.run({ requests: warm })
    const micros: [number[], number[]] = [[], []]
    for (let turn = 0; turn < Number(values.seconds) / TURN; turn++)
      for (const index of turn % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const))
        micros[index].push(await pair[index].run(isPrepared ? { requests: own ?? PREPARED } : { seconds: TURN }))
    const mean = (all: readonly number[]) => all.reduce((sum, one) => sum + one, 0) / all.length
    found.set(name, [mean(micros[0]), mean(micros[1])])
    for (const one of pair) await one.close()
  }
  return found
}

const wanted = values.only?.split(',') ?? Object.keys(groups)
const around = await startSurroundings()
let isMissed = false
await runBench(async (bench) => {
  const start = (...args: string[]) => Promise.all([0, 1].map(() => startPart(BACKEND, 'modern', '0', ...args)))
  const backends: Backends = { plain: await start(), many: await start('tools=500'), skills: await start('skills=13') }
  for (const name of wanted) {
    const group = groups[name]
    if (group === undefined) throw new Error(`no bars ${name}; there are ${Object.keys(groups).join(', ')}`)
    const rounds = []
    let bars: readonly Bar[] = []
    for (let round = 0; round < Number(values.starts); round++) {
      const all = await group(bench, backends, around)
      bars = all.filter((bar) => bar.name.includes(values.bar))
      rounds.push(await measure(bars))
      for (const gateway of new Set(all.flatMap((bar) => [bar.without.gateway, bar.with.gateway]))) gateway.end()
    }
    for (const bar of bars) {
      const sides = rounds.map((round) => round.get(bar.name) as readonly [number, number])
      const { ratio, error } = computeRatio(
        sides.map(([, withIt]) => withIt),
        sides.map(([without]) => without),
      )
      const isMet = ratio - (Number.isNaN(error) ? 0 : error) <= bar.most
      isMissed ||= !isMet
      const micros = (sides.at(-1) as readonly [number, number]).map((one) => one.toFixed(1)).join(' and ')
      console.log(
        `${bar.name}: ${withError(ratio, error, 3)} (at last ${micros} µs), at most ${bar.most.toFixed(3)}: ${isMet ? 'met' : 'missed'}`,
      )
    }
  }
})
around.close()
for (const provider of logins) await provider.close()
process.exit(isMissed ? 1 : 0)
