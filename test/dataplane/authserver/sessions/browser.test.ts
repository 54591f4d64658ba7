/** Visits the page in Chromium without scripts, with a provider at another site, and attacks it from a third site. */

import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import type { Browser, Page } from 'puppeteer-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startBrowser } from '../../../support/browser.ts'
import { eventually } from '../../../support/eventually.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'

const test = suite('browser')
let server: AuthServerUnderTest
/** The address that people visit: for browsers another site than the provider at 127.0.0.1. */
let base: string
let browser: Browser
let page: Page
let evil: string
let stop: () => void
/** The form that the other site posts. */
let form = ''

test.before(async () => {
  server = await startAuthServer()
  base = server.issuer.replace('127.0.0.1', 'localhost')
  const upstreamProviders = (server.config().authServer?.upstreamProviders ?? []).map((provider) => ({
    ...provider,
    ...(provider.oidcConfig && { oidcConfig: { ...provider.oidcConfig, redirectUri: `${base}/oauth/callback` } }),
  }))
  const before = (await server.gateway.status()).config
  await server.gateway.configure(server.config({ upstreamProviders }))
  await eventually('the new configuration', async () => (await server.gateway.status()).config !== before)
  const app = new Hono()
  app.get('/', (c) => c.html(`<form method="post" action="${base}/oauth/sessions">${form}<button>Win</button></form>`))
  const site = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => site.once('listening', resolve))
  evil = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`
  stop = () => void site.close()
  browser = await startBrowser()
  page = await browser.newPage()
  await page.setJavaScriptEnabled(false)
})
test.after(async () => {
  await browser?.close()
  stop?.()
  await server?.close()
})

const text = async () => String(await page.evaluate("document.querySelector('main').innerText")).replace(/\s+/g, ' ')
const click = (selector: string) => Promise.all([page.waitForNavigation(), page.click(selector)])

test('signs in across sites, revokes, and signs out', async () => {
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  const { access_token: token } = await client.login()
  server.upstream.before = ({ url = '' }, response) => {
    if (!url.startsWith('/interaction/') || url.endsWith('?yes')) return false
    response.setHeader('content-type', 'text/html').end(`<a href="${url}?yes">It is me</a>`)
    return true
  }
  const status = async () =>
    (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status
  await page.goto(`${server.issuer}/oauth/sessions`)
  assert.match(page.url(), base)
  await click('button[value=sign-in]')
  // The user returns with a click on the provider's page, which is a cross-site link for `SameSite=Strict`.
  assert.match(page.url(), server.upstream.issuer)
  await click('a')
  assert.match(await text(), 'You are signed in as Person alice')
  assert.match(await text(), 'Editor')
  const inputs = await page.$$eval('input[name=token], button[name=revoke]', (found) =>
    found.map((one) => [one.getAttribute('name'), one.getAttribute('value')]),
  )
  // Even with the page's own fields another site can't post for this browser.
  form = inputs.map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`).join('')
  await page.goto(evil)
  await click('button')
  assert.match(await text(), 'This page has ended')
  assert.is(await status(), 200)
  await page.goto(`${base}/oauth/sessions`)
  assert.match(await text(), 'You are signed in as Person alice')
  await click('button[name=revoke]')
  assert.match(await text(), 'Access is revoked.')
  assert.is(await status(), 401)
  await click('button[value=sign-out]')
  assert.match(await text(), 'Sign in to see them')
  await page.goBack()
  assert.not.match(await text(), 'Person alice')
})

test.run()
