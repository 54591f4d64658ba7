/**
 * Runs many callers with their own credentials at random: none gets another's call, list, prompt, resource, stream or
 * session, even if two issuers use the same name. `ISOLATION_SEED` and `ISOLATION_SECONDS` choose the run.
 */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import {
  AUDIENCE,
  buildExchangingBackend,
  startExchangingGateway,
} from '../../../support/gateway/exchanging-gateway.ts'
import {
  BASE_HEADERS,
  modern,
  openSession,
  post,
  postModern,
  type RpcAnswer,
  rpc,
} from '../../../support/gateway/post.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { buildExchanged, decodeClaims, respond } from '../../../support/network/token-endpoint.ts'
import { createRandom } from '../../../support/random.ts'
import { startPersonalServer } from '../../../support/servers/personal-server.ts'

const SEED = Number(process.env['ISOLATION_SEED'] ?? 15)
const SECONDS = Number(process.env['ISOLATION_SECONDS'] ?? 6)
/** The subjects of each of two issuers. */
const SUBJECTS = 100
const MOST_WORKERS = 16
const FEWEST_WORKERS = 4
/** The time that the first lists of all workers' users may take together; a list waits three seconds for a backend. */
const FIRST_LISTS_MS = 1_500
/** The time for which one issuer's callers are accepted. */
const TERM_MS = 1_200

const random = createRandom(SEED)
const pickOne = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T

type Label = 'a' | 'b'

/** A subject of an issuer; `a_user7` and `b_user7` have the same subject. */
interface User {
  readonly issuer: Label
  readonly subject: string
  readonly name: string
}

const faults: string[] = []
const issuers = new Map<Label, IdentityProvider>()
for (const label of ['a', 'b'] as const) issuers.set(label, await startIdentityProvider())
const readUrl = (label: Label) => (issuers.get(label) as IdentityProvider).issuer
const findLabel = (issuer: unknown): string => [...issuers].find(([, idp]) => idp.issuer === issuer)?.[0] ?? 'unknown'

const users = [...issuers.keys()].flatMap((issuer) =>
  Array.from({ length: SUBJECTS }, (_, index) => ({ issuer, subject: `user${index}`, name: `${issuer}_user${index}` })),
)

const modernServer = await startPersonalServer({ name: 'm', era: 'modern', faults })
const legacyServer = await startPersonalServer({ name: 'l', era: 'legacy', faults })
const ownSecret = { clientSecretFile: undefined as never, clientId: undefined as never }
/** One issuer's callers may do what is forbidden to those of the other, who have the same subjects. */
const authz = {
  policies: [
    'permit(principal, action, resource);',
    `forbid(principal, action, resource == Tool::"m_common") when { principal.claim_iss == "${readUrl('b')}" };`,
    `forbid(principal, action, resource == Prompt::"m_common") when { principal.claim_iss == "${readUrl('a')}" };`,
  ],
}
const buildConfig = (issuer: Label) => ({
  incomingAuth: { type: 'oidc' as const, oidc: { issuer: readUrl(issuer), audience: AUDIENCE } },
  authz,
})
const buildBackends = (endpoint: Parameters<typeof buildExchangingBackend>[2]) => [
  buildExchangingBackend('m', modernServer.url, endpoint, ownSecret),
  buildExchangingBackend('l', legacyServer.url, endpoint, ownSecret),
]
const gateway = await startExchangingGateway(buildBackends, buildConfig('a'))
gateway.endpoint.answer = async ({ form }, response) => {
  await new Promise((resolve) => setTimeout(resolve, random() * 20))
  const { iss, sub } = decodeClaims(form['subject_token'])
  // Some expire soon, so that they are exchanged again between the calls.
  const life = random() < 0.3 ? 61 : 600
  const token = `of-${findLabel(iss)}_${sub}-for-${form['audience']}`
  respond(response, 200, buildExchanged(token, { expires_in: life }))
}

test.after(async () => {
  await gateway.close()
  await Promise.all([modernServer.close(), legacyServer.close(), ...[...issuers.values()].map((idp) => idp.close())])
})

/** The issuer in force, and how often it has changed. */
let inForce: Label = 'a'
let terms = 0

async function changeIssuer(): Promise<void> {
  terms++
  const { config } = await gateway.status()
  const next = inForce === 'a' ? 'b' : 'a'
  await gateway.configure({ ...buildConfig(next), backends: buildBackends(gateway.endpoint) })
  await eventually('the other issuer is in force', async () => (await gateway.status()).config !== config)
  inForce = next
  terms++
}

const tokens = new Map<User, Promise<string>>()
async function bearer(user: User): Promise<{ readonly authorization: string }> {
  const idp = issuers.get(user.issuer) as IdentityProvider
  const token = tokens.get(user) ?? idp.mint({ sub: user.subject, aud: AUDIENCE }, { expiresIn: SECONDS + 300 })
  tokens.set(user, token)
  return { authorization: `Bearer ${await token}` }
}

/** Counts of actions by kind. */
const done = new Map<string, number>()
const count = (what: string) => done.set(what, (done.get(what) ?? 0) + 1)
/** Sessions by user, for others to try. */
const sessions = new Map<User, Record<string, string>>()

/** A user with requests outside a session (modern) or inside one (legacy). */
interface Client {
  readonly user: User
  readonly headers: Record<string, string>
  readonly isLegacy: boolean
}

async function openClient(user: User): Promise<Client> {
  const own = await bearer(user)
  if (random() < 0.6) return { user, headers: own, isLegacy: false }
  const headers = await openSession(gateway.url, own)
  sessions.set(user, headers)
  return { user, headers, isLegacy: true }
}

const ask = ({ headers, isLegacy }: Client, method: string, params: Record<string, unknown>): Promise<RpcAnswer> =>
  isLegacy
    ? post(gateway.url, rpc(method, params), { ...BASE_HEADERS, ...headers })
    : postModern(gateway.url, method, params, headers)

/** The user's issuer is not in force. */
class UnexpectedAnswer extends Error {}

/** Sends a request and checks that `said` finds the user's name in the result. */
async function use(
  client: Client,
  method: string,
  params: Record<string, unknown>,
  readCaller: (result: RpcResult) => unknown,
) {
  const { name } = client.user
  const { json, status } = await ask(client, method, params)
  if (status === 401) throw new UnexpectedAnswer()
  if (json?.result === undefined || readCaller(json.result) !== name)
    faults.push(`${name} did ${method} ${JSON.stringify(params)} and got ${status} ${JSON.stringify(json)}`)
  count(method)
}

const buildLists = ({ name, issuer }: User): Readonly<Record<string, readonly [string, string]>> => ({
  'tools/list': ['tools', [`l_t-${name}`, 'l_common', `m_t-${name}`, ...(issuer === 'a' ? ['m_common'] : [])].join()],
  'prompts/list': [
    'prompts',
    [`l_p-${name}`, 'l_common', `m_p-${name}`, ...(issuer === 'b' ? ['m_common'] : [])].join(),
  ],
  'resources/list': ['resources', [name, 'common', name, 'common'].join()],
})

async function list(client: Client): Promise<void> {
  const [method, [member, expected]] = pickOne(Object.entries(buildLists(client.user)))
  await use(client, method, {}, (result) => {
    const names = (result[member] as { name: string }[]).map(({ name }) => name)
    return names.sort().join() === expected.split(',').sort().join() ? client.user.name : names
  })
}

const readText = (result: RpcResult) => result.content[0].text

const call = (client: Client, tool: string) =>
  use(client, 'tools/call', { name: tool, arguments: { who: client.user.name } }, readText)
const get = (client: Client, name: string) =>
  use(client, 'prompts/get', { name }, ({ messages }) => messages[0].content.text)
const read = (client: Client, uri: string) => use(client, 'resources/read', { uri }, ({ contents }) => contents[0].text)

/** The clients' actions; each number is the upper end of its share. */
const acts: readonly (readonly [share: number, act: (client: Client) => Promise<void>])[] = [
  [0.3, list],
  [0.65, (client) => call(client, `${pickOne(['m', 'l'])}_t-${client.user.name}`)],
  [0.7, (client) => call(client, 'l_common')],
  [0.8, (client) => get(client, pickOne([`m_p-${client.user.name}`, 'l_common']))],
  [0.9, (client) => read(client, pickOne([`m://${client.user.name}`, 'l://common']))],
  [0.94, stream],
  [1, steal],
]

/** Listens to several resources, reads one's own, and checks that only that one is reported. */
async function stream(client: Client): Promise<void> {
  const { user, headers, isLegacy } = client
  const backend = pickOne(['m', 'l'])
  const own = `${backend}://${user.name}`
  const stranger = `${backend}://${pickOne(users).name}`
  const open = (): Promise<EventReader> => {
    if (isLegacy) return EventReader.listen(gateway.url, headers)
    const request = modern('subscriptions/listen', { notifications: { resourceSubscriptions: [own, stranger] } })
    const init = { method: 'POST', headers: { ...BASE_HEADERS, ...request.headers, ...headers }, body: request.body }
    return EventReader.open(gateway.url, init)
  }
  if (isLegacy) await ask(client, 'resources/subscribe', { uri: own })
  const reader = await open()
  try {
    if (reader.status === 401) throw new UnexpectedAnswer()
    const hasUpdate = () => reader.messages.some(({ method }) => method === 'notifications/resources/updated')
    for (let turn = 0; turn < 5 && !hasUpdate(); turn++) {
      await read(client, own)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    for (const { params } of reader.messages)
      if (params?.uri !== undefined && params.uri !== own) faults.push(`${user.name} hears of ${params.uri}`)
    if (hasUpdate()) count(`${isLegacy ? 'legacy' : 'modern'} stream from ${backend}`)
  } finally {
    await reader.leave()
  }
}

/** Tries items of another user, or of the other issuer alone; all must be refused. */
async function steal(client: Client): Promise<void> {
  const { user, headers } = client
  const other = pickOne(users)
  if (other === user) return
  const forbidden = user.issuer === 'b' ? 'm_common' : `m_t-${other.name}`
  const session = sessions.get(other)
  const tries: (() => Promise<RpcAnswer>)[] = [
    () => ask(client, 'tools/call', { name: `m_t-${other.name}`, arguments: { who: user.name } }),
    () => ask(client, 'tools/call', { name: forbidden, arguments: { who: user.name } }),
    () => ask(client, 'prompts/get', { name: `l_p-${other.name}` }),
    () => ask(client, 'resources/read', { uri: `l://${other.name}` }),
    ...(session === undefined
      ? []
      : [() => post(gateway.url, rpc('tools/list'), { ...session, authorization: headers['authorization'] ?? '' })]),
  ]
  const { status, text } = await pickOne(tries)()
  if (status === 401) throw new UnexpectedAnswer()
  if (status !== 403 && status !== 404) faults.push(`${user.name} took what is ${other.name}’s: ${status} ${text}`)
  count('theft')
}

/** The minimum for a meaningful run; a slow machine takes longer to reach it. */
const LEAST = {
  'tools/call': 100,
  'tools/list': 20,
  'prompts/list': 10,
  'prompts/get': 10,
  'resources/read': 20,
  theft: 8,
}
const hasStreamed = (era: string) => [...done.keys()].some((what) => what.startsWith(`${era} stream`))
const isEnough = () =>
  terms >= 6 &&
  Object.entries(LEAST).every(([what, times]) => (done.get(what) ?? 0) >= times) &&
  ['modern', 'legacy'].every(hasStreamed)

const until = performance.now() + SECONDS * 1_000
const isRunning = () => faults.length === 0 && (performance.now() < until || !isEnough())

async function worker(): Promise<void> {
  while (isRunning()) {
    const term = terms
    const user = pickOne(users.filter(({ issuer }) => issuer === inForce))
    try {
      const client = await openClient(user)
      const share = random()
      await acts.find(([most]) => share < most)?.[1](client)
    } catch (error) {
      const isRefused = error instanceof UnexpectedAnswer || /no session: 401/.test(String(error))
      if (!isRefused || (term === terms && terms % 2 === 0)) faults.push(`${user.name}: ${error}`)
    }
  }
}

/** Returns how many may work at a time: fewer on a slow machine. */
async function countWorkers(): Promise<number> {
  let tookMs = 0
  // The second user's time counts: the first one's has the compilation of the code.
  for (const user of users.slice(0, 2)) {
    const began = performance.now()
    await list({ user, headers: await bearer(user), isLegacy: false })
    tookMs = performance.now() - began
  }
  return Math.max(FEWEST_WORKERS, Math.min(MOST_WORKERS, Math.floor(FIRST_LISTS_MS / tookMs)))
}

test(`${users.length} users do things at random for ${SECONDS} s (seed ${SEED}), and none meets another`, async () => {
  const workers = await countWorkers()
  const working = Promise.all(Array.from({ length: workers }, worker))
  while (isRunning()) {
    await new Promise((resolve) => setTimeout(resolve, TERM_MS))
    await changeIssuer()
  }
  await working
  assert.equal(faults.slice(0, 5), [])
  console.log(`${workers} at a time:`, Object.fromEntries(done))
  for (const { headers } of [...modernServer.seen, ...legacyServer.seen])
    if (headers.authorization !== undefined) assert.match(headers.authorization, /^Bearer of-[ab]_user\d+-for-(m|l)$/)
})

test.run()
