/**
 * Measures a gateway's memory for 100,000 registered clients and 100,000 logins (a grant, its refresh token, a
 * provider's tokens each). Usage: memory.ts [number], with --expose-gc
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { setImmediate as pause } from 'node:timers/promises'
import { pino } from 'pino'
import { keyedHash, randomSecret } from '../../dataplane/authserver/keys/keyed-hash.ts'
import { createGrants } from '../../dataplane/authserver/provider/grants.ts'
import { refreshTokens } from '../../dataplane/authserver/provider/refresh-tokens.ts'
import { Revocations } from '../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore } from '../../dataplane/authserver/store/memory-store.ts'
import { createMemoryTokenStore } from '../../dataplane/upstream-tokens/index.ts'

const NUMBER = Number(process.argv[2] ?? 100_000)
const MOST_MIB = 256
const TTL_S = 7 * 24 * 60 * 60
const MIB = 1024 * 1024
const RESOURCE = 'https://gateway.example.com/mcp'

const log = pino({ level: 'silent' })
const store = createMemoryStore()
const tokens = createMemoryTokenStore()
const revocations = new Revocations(store, 3_600, log)
const grants = createGrants({
  store,
  revocations,
  ttlS: TTL_S,
  freshS: TTL_S,
  tokens,
  providers: ['corp'],
  log: () => log,
})
const refresh = refreshTokens(store, keyedHash([randomSecret()]))
const randomText = (bytes: number) => randomBytes(bytes).toString('base64url')

function memory(): number {
  if (globalThis.gc === undefined) throw new Error('run it with node --expose-gc')
  for (let times = 0; times < 3; times++) globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / MIB
}

async function register(clientId: string): Promise<void> {
  const record = {
    client_id: clientId,
    client_id_issued_at: Math.floor(Date.now() / 1000),
    client_name: 'A client of some kind',
    redirect_uris: ['http://127.0.0.1:7777/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
    scope: 'openid profile email offline_access tools:call tools:read',
  }
  await store.set('client', clientId, JSON.stringify(record), TTL_S)
}

async function logIn(clientId: string): Promise<string> {
  const [grantId, accountId, now] = [randomText(32), randomUUID(), Math.floor(Date.now() / 1000)]
  const scope = 'tools:call tools:read'
  await grants.describe(grantId, { user: { name: 'Some Person', email: `${randomText(6)}@example.com` } })
  const openid = { scope }
  await grants.keep(grantId, { iat: now, accountId, clientId, kind: 'Grant', openid, resources: { [RESOURCE]: scope } })
  const payload = {
    ...{ iat: now, exp: now + TTL_S, accountId, authTime: now, iiat: now, grantId, gty: 'authorization_code' },
    ...{ resource: RESOURCE, rotations: 0, scope, sessionUid: randomText(32), kind: 'RefreshToken', clientId },
  }
  await refresh.keep(refresh.make(grantId, 0), payload, TTL_S)
  return grantId
}

const before = memory()
const ids = Array.from({ length: NUMBER }, () => randomText(16))
const names = memory()
for (const [index, id] of ids.entries()) {
  await register(id)
  if (index % 10_000 === 0) await pause()
}
const clients = memory()
const logins: string[] = []
for (const id of ids) logins.push(await logIn(id))
const both = memory()
for (const login of logins) {
  const set = { owner: login, subject: randomText(12), accessToken: randomText(400), refreshToken: randomText(48) }
  await tokens.put({ login, provider: 'corp' }, set, { ttlMs: TTL_S * 1000 })
}
const all = memory()

const countKeys = async (kind: 'client' | 'grant' | 'refresh', keys: readonly string[]) => {
  let left = 0
  for (const key of keys) if ((await store.get(kind, key)) !== undefined) left++
  return left
}
const [keptClients, keptGrants, keptRefresh] = [
  await countKeys('client', ids),
  await countKeys('grant', logins),
  await countKeys('refresh', logins),
]
let keptTokens = 0
for (const login of logins) if ((await tokens.get({ login, provider: 'corp' })) !== undefined) keptTokens++
const mib = (value: number) => `${value.toFixed(0).padStart(4)} MiB`
console.log(`${mib(clients - names)}  ${NUMBER} clients registered, ${keptClients} kept`)
console.log(`${mib(both - clients)}  ${NUMBER} logins, ${keptGrants} grants and ${keptRefresh} refresh tokens kept`)
console.log(`${mib(all - both)}  what a provider gave at each of them, ${keptTokens} kept`)
const cost = both - before
console.log(`${mib(cost)}  clients and logins together, at most ${MOST_MIB}`)
revocations.close()
process.exit(cost <= MOST_MIB ? 0 : 1)
