/** Checks that a client which begins logins from many networks evicts no login in progress and leaves room for others. */
import { randomBytes } from 'node:crypto'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import { ChainLogin } from '../../../../dataplane/authserver/login/chain-login.ts'
import { consentedLogin } from '../../../../dataplane/authserver/login/consented-login.ts'
import type { Browser, LoginStep } from '../../../../dataplane/authserver/login/login.ts'
import { LoginsUnderWay } from '../../../../dataplane/authserver/login/logins-under-way.ts'
import type { Upstream } from '../../../../dataplane/authserver/login/upstream/upstream.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { createMemoryTokenStore, createSealer } from '../../../../dataplane/upstream-tokens/index.ts'
import { REDIRECT, readTokens, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { parseConsent } from '../../../support/identity/user-agent.ts'

const KIB = 1024
const LONGEST_MS = 600_000

test('a network gets at most half of the free room, and less if others do the same', () => {
  let now = 0
  const logins = new LoginsUnderWay({ mostBytes: 100 * KIB, longestMs: LONGEST_MS, now: () => now })
  let names = 0
  const fill = (network: string) => {
    const started: string[] = []
    while (logins.begin(`n${++names}`, network, KIB)) started.push(`n${names}`)
    return started
  }
  // One network gets 33 of 100: no more than half of the remaining 67.
  const first = fill('192.0.2.1')
  assert.is(first.length, 33)
  assert.is(fill('192.0.2.1').length, 0)
  assert.is(fill('2001:db8::1').length, 22)
  assert.is(fill('2001:db8::2').length, 0, 'the same /64')
  assert.is(fill('2001:db8:0:1::1').length, 0, 'the same /56')
  assert.is(fill('2001:db8:0:ff00::1').length, 0, 'the same /48')
  for (let count = 0; count < 100; count++) fill(`198.51.100.${count}`)
  assert.is(fill('203.0.113.1').length, 0)
  // A login that ends makes room, for other networks too.
  for (const name of first) logins.end(name)
  for (const name of first) logins.end(name)
  assert.ok(fill('203.0.113.1').length > 8)
  now += LONGEST_MS
  assert.is(fill('192.0.2.1').length, 33)
  assert.ok(fill('203.0.113.2').length > 20)
})

/** A provider that uses the state as its code. */
const provider: Upstream = {
  name: 'corp',
  authorizationUrl: async ({ state }) => `https://corp.example/authorize?state=${state}`,
  exchange: async () => ({ issuer: 'https://corp.example', tokens: { subject: 'user', accessToken: 't' } }),
  refresh: () => Promise.reject(new Error('not asked here')),
  close: async () => undefined,
}

/** Starts a server whose pending logins may take this many bytes. */
function start(pendingBytes: number) {
  const store = createMemoryStore({ mostBytes: { pending: pendingBytes } })
  const tokens = createMemoryTokenStore()
  const keyed = keyedHash(['s'.repeat(32)])
  const log = pino({ level: 'silent' })
  const shared = { store, keyed: () => keyed, loginS: 600 }
  const chain = new ChainLogin({
    ...shared,
    issuer: 'https://gateway.example',
    upstreams: [provider],
    primaries: [provider.name],
    tokens,
    carried: new CarriedTokens({ tokens, keepS: 60, log: () => log }),
    loginsUnderWay: new LoginsUnderWay({ mostBytes: (pendingBytes / 4) * 3, longestMs: LONGEST_MS }),
    keepS: 60,
    log: () => log,
  })
  const requests = {
    async open(request: string) {
      const uid = randomBytes(16).toString('base64url')
      await store.set('interaction', uid, request.repeat(2), 600)
      return uid
    },
    drop: (uid: string) => store.delete('interaction', uid),
  }
  const pageSealer = createSealer(() => ['s'.repeat(32)], 'test')
  const login = consentedLogin({
    ...shared,
    login: chain,
    requests: () => requests,
    pageSealer,
    forgetTokens: async () => 0,
  })
  /** Begins a login up to the consent page. */
  async function openConsent(browser: Browser, state = 's'): Promise<string> {
    const request = `state=${state}`
    const rest = { clientId: 'c', clientName: 'C', redirectUri: 'https://c.example/cb', scope: 's', resource: 'r' }
    const uid = (await requests.open(request)) as string
    const step = await login.begin({ uid, request, ...rest }, browser)
    return step.kind === 'ask' ? step.token : (assert.unreachable(step.kind) as never)
  }
  return { store, login, openConsent, requests }
}

/** Returns the parameters of the provider's callback. */
function readAnswer(step: LoginStep): URLSearchParams {
  if (step.kind !== 'respond') throw new Error(`the login does not go on: ${step.kind}`)
  const state = new URL(step.response.headers.get('location') ?? '').searchParams.get('state') ?? ''
  return new URLSearchParams({ state, code: 'c' })
}

test('logins at a provider, open pages, and later visitors succeed during a flood', async () => {
  const { store, login, openConsent, requests } = start(1024 * KIB)
  const victim: Browser = { id: 'victim', address: '203.0.113.1' }
  const atProvider = readAnswer(await login.decide(await openConsent(victim), true, victim))
  const page = await openConsent(victim)
  const size = store.size
  // A login that goes no further leaves nothing.
  for (let count = 0; count < 2_000; count++)
    await openConsent({ id: `b${count}`, address: `2001:db8:${(count % 500).toString(16)}::1` }, 'x'.repeat(500))
  assert.is(store.size, size)
  const outcomes = new Map<string, number>()
  for (let count = 0; count < 3_000; count++) {
    const browser = { id: `b${count}`, address: `2001:db8:${(count % 100).toString(16)}::1` }
    const step = await login.decide(await openConsent(browser, 'x'.repeat(500)), true, browser)
    // The client gets an error, which ends the request.
    if (step.kind === 'failed') await requests.drop(step.uid)
    const what = step.kind === 'failed' ? step.error : step.kind
    outcomes.set(what, (outcomes.get(what) ?? 0) + 1)
  }
  assert.equal([...outcomes.keys()].sort(), ['busy', 'respond'])
  assert.ok((outcomes.get('respond') ?? 0) > 100, JSON.stringify([...outcomes]))
  assert.is((await login.callback(atProvider, victim)).kind, 'done')
  const later = readAnswer(await login.decide(page, true, victim))
  assert.is((await login.callback(later, victim)).kind, 'done')
})

const headersFrom = (address: string, cookie = '') => ({ 'x-forwarded-for': address, cookie })

test('if consent is revoked during a login, the user is asked again', async () => {
  const { login, openConsent, requests } = start(1024 * KIB)
  const browser: Browser = { id: 'b', address: '203.0.113.1' }
  const first = await login.callback(readAnswer(await login.decide(await openConsent(browser), true, browser)), browser)
  if (first.kind !== 'done') throw new Error(first.kind)
  const rest = { clientId: 'c', clientName: 'C', redirectUri: 'https://c.example/cb', scope: 's', resource: 'r' }
  const begin = async () => login.begin({ uid: (await requests.open('s')) as string, request: 's', ...rest }, browser)
  const [one, other] = [readAnswer(await begin()), readAnswer(await begin())]
  assert.is((await login.callback(one, browser)).kind, 'done')
  await login.forget(first.user.subject, 'c')
  assert.is((await login.callback(other, browser)).kind, 'ask')
})

test('a flood over HTTP in a small container', async () => {
  const server = await startAuthServer({ gateway: { trustProxyHeaders: true }, memoryBytes: 64 * KIB * KIB })
  try {
    const { id } = await TestClient.register(server.issuer)
    const person = (address: string) => {
      const client = new TestClient(server.issuer, id)
      client.agent.headers['x-forwarded-for'] = address
      return client
    }
    const [atProvider, atPage] = [person('203.0.113.1'), person('203.0.113.2')]
    const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
    const callback = (await atProvider.agent.follow(atProvider.authorizeUrl(), isCallback)).url
    const url = atPage.authorizeUrl()
    const question = parseConsent(await (await atPage.agent.get(url)).text(), url)
    /** Submits the same page as often as a network may; returns the redirects. */
    async function attack(address: string): Promise<readonly string[]> {
      const client = person(address)
      const started = client.authorizeUrl({ state: 'x'.repeat(400) })
      const page = parseConsent(await (await client.agent.get(started)).text(), started)
      const headers = headersFrom(address, client.agent.cookies(new URL(server.issuer).host))
      const body = new URLSearchParams({ token: page?.token ?? '', decision: 'allow' })
      const led: string[] = []
      for (let count = 0; count < 95; count++) {
        const answer = await fetch(page?.action ?? '', { method: 'POST', headers, body, redirect: 'manual' })
        await answer.arrayBuffer()
        led.push(answer.headers.get('location') ?? `${answer.status}`)
      }
      return led
    }
    const led = (await Promise.all(Array.from({ length: 10 }, (_, index) => attack(`192.0.2.${index}`)))).flat()
    const [started, refused] = [
      led.filter((where) => where.startsWith(server.upstream.issuer)),
      led.filter((where) => where.startsWith(REDIRECT)),
    ]
    assert.is(
      started.length + refused.length,
      led.length,
      led.find((where) => /^\d+$/.test(where)),
    )
    assert.ok(started.length > 300 && refused.length > 20, `${started.length} have begun, ${refused.length} have not`)
    for (const where of refused) assert.is(new URL(where).searchParams.get('error'), 'temporarily_unavailable')
    const isEnd = (at: string) => at.startsWith(REDIRECT)
    const answer = await atPage.agent.post(question?.action ?? '', { token: question?.token ?? '', decision: 'allow' })
    const ends = [
      [atProvider, (await atProvider.agent.follow(callback, isEnd)).url],
      [atPage, (await atPage.agent.follow(answer.headers.get('location') ?? '', isEnd)).url],
    ] as const
    for (const [client, end] of ends)
      await readTokens(await client.exchange(new URL(end).searchParams.get('code') ?? ''))
    await person('203.0.113.3').login()
  } finally {
    await server.close()
  }
})

test.run()
