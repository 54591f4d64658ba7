import { pathToFileURL } from 'node:url'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { listSetups } from '../../../../dataplane/registry/page/pages.ts'
import { openPage } from '../../../support/browser.ts'
import { temporaryFolder } from '../../../support/folder.ts'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

const evil = '<script>alert(1)</script><img src=x onerror=alert(1)>'
const many = Array.from({ length: 40 }, (_, index) => server(`com.example/n${String(index).padStart(2, '0')}`))
const servers = [
  ...many,
  server('com.example/twice', '1.0.0'),
  {
    ...server('com.example/twice', '2.0.0', { title: 'Twice' }),
    remotes: [{ type: 'streamable-http', url: 'https://twice.example.com/mcp' }],
    websiteUrl: 'https://twice.example.com/',
  },
  server(`com.example/${'l'.repeat(150)}`, `1.0.0-${'o'.repeat(240)}`, {
    title: 'n'.repeat(100),
    description: 'g'.repeat(100),
  }),
  { ...server('com.example/evil', '1.0.0', { title: evil, description: evil }), websiteUrl: 'javascript:alert(1)' },
]

let registry: TestRegistry
test.before(async () => {
  registry = await startRegistry({ own: registryFile(servers) })
})
test.after(() => registry.close())

const page = async (path: string, headers: Record<string, string> = {}) => {
  const response = await fetch(`${registry.url}${path}`, { headers: { accept: 'text/html', ...headers } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test('the list pages and searches by plain links and a form', async () => {
  const first = await page('/')
  assert.is(first.status, 200)
  assert.match(first.headers.get('content-type') ?? '', 'text/html')
  assert.is(first.text.split('class="card"').length - 1, 30)
  const next = /href="([^"]+)" rel="next"/.exec(first.text)?.[1]?.replaceAll('&amp;', '&') ?? ''
  const second = await page(next)
  assert.is(second.text.split('class="card"').length - 1, 13)
  assert.not.match(second.text, 'rel="next"')

  const found = await page('/?registry=main&search=TWICE')
  assert.is(found.text.split('class="card"').length - 1, 1)
  assert.match(found.text, '>2.0.0<')
  assert.match((await page('/?search=%3Cb%3E')).text, 'Nothing here matches “&lt;b&gt;”')
})

test('an entry has its versions and what to type into each client', async () => {
  const { status, text } = await page('/registry/main/servers/com.example/twice')
  assert.is(status, 200)
  for (const wanted of [
    '>Twice<',
    '<td>1.0.0</td>',
    'claude mcp add --transport http twice https://twice.example.com/mcp',
    'VS Code',
    'Cursor',
    'https://twice.example.com/',
  ])
    assert.ok(text.includes(wanted), wanted)
})

test('published content is shown as text, and the content security policy blocks all scripts', async () => {
  for (const path of ['/?search=evil', '/registry/main/servers/com.example/evil']) {
    const { text, headers } = await page(path)
    assert.not.match(text, '<script')
    assert.not.match(text, '<img')
    assert.not.match(text, /\son\w+="/)
    assert.not.match(text, 'javascript:')
    const policy = headers.get('content-security-policy') ?? ''
    assert.match(policy, "default-src 'none'")
    assert.not.match(policy, 'unsafe')
  }
})

test('a missing entry is a page for people and JSON for programs', async () => {
  for (const path of ['/?registry=none', '/registry/main/servers/com.example/none', '/registry/none/servers/a/b']) {
    const { status, text } = await page(path)
    assert.is(status, 404, path)
    assert.match(text, '<h1>')
    const plain = await page(path, { accept: 'application/json' })
    assert.is(JSON.parse(plain.text).error, 'not_found')
  }
  assert.is((await page('/?cursor=x')).status, 400)
})

test('without a token a page of a closed server says so, and so does its header', async () => {
  const closed = await startRegistry(
    { own: registryFile(many) },
    {
      auth: {
        mode: 'oauth',
        oauth: {
          providers: [{ name: 'idp', issuerUrl: 'http://127.0.0.1:1', audience: 'a', jwksUrl: 'http://127.0.0.1:1/k' }],
        },
      },
    },
  )
  try {
    const response = await fetch(closed.url, { headers: { accept: 'text/html' } })
    assert.is(response.status, 401)
    assert.match(response.headers.get('www-authenticate') ?? '', 'Bearer')
    assert.match(await response.text(), 'needs a bearer token')
  } finally {
    await closed.close()
  }
})

test('in a browser the page has its layout and loads everything, light and dark', async () => {
  const light = await openPage(`${registry.url}/`)
  assert.is(light.console, '')
  assert.is(light.dom.split('class="card"').length - 1, 30)
  const dark = await openPage(`${registry.url}/`, { dark: true })
  assert.not.equal(light.picture, dark.picture)
  const entry = await openPage(`${registry.url}/registry/main/servers/com.example/evil`, { width: 500 })
  assert.is(entry.console, '')
  // An unstyled page is nearly white, and its picture a fraction of this size.
  for (const { picture } of [light, dark, entry]) assert.ok(picture.length > 15_000, `${picture.length}`)
})

test('very long words stay within a narrow window', async () => {
  using folder = temporaryFolder()
  const paths = ['/', `/?search=${'x'.repeat(200)}`, `/registry/main/servers/com.example/${'l'.repeat(150)}`]
  const texts = await Promise.all(paths.map(async (path) => (await page(path)).text))
  // Each in a frame of that window's width.
  const frames = texts.map((text) => {
    const quoted = text.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
    return `<iframe style="width: 500px; border: 0" srcdoc="${quoted}"></iframe>`
  })
  const measure = `<script>onload = () => {
    document.title = Array.from(frames, ({ document }) => document.documentElement.scrollWidth)
  }</script>`
  const file = folder.write('page.html', `<!doctype html>${frames.join('')}${measure}`)
  const { dom } = await openPage(pathToFileURL(file).href, { width: 1_000 })
  assert.equal(/<title>(.*)<\/title>/.exec(dom)?.[1], '500,500,500')
})

test('packages are started by the runner of their registry; shell words are quoted', () => {
  const setup = (packages: object[], client: string) =>
    listSetups({ name: 'a/b', packages }).find((one) => one.client === client)?.text
  const npm = { registryType: 'npm', identifier: '@x/y', version: '1.2.3', environmentVariables: [{ name: 'KEY' }] }
  assert.is(setup([npm], 'Claude Code'), "claude mcp add b --env 'KEY=<KEY>' -- npx -y @x/y@1.2.3")
  assert.equal(JSON.parse(setup([npm], 'Cursor') ?? ''), {
    mcpServers: { b: { command: 'npx', args: ['-y', '@x/y@1.2.3'], env: { KEY: '<KEY>' } } },
  })
  const oci = { registryType: 'oci', identifier: 'ghcr.io/x/y', version: '1.0', environmentVariables: [{ name: 'K' }] }
  assert.match(setup([oci], 'Claude Code') ?? '', 'docker run -i --rm -e K ghcr.io/x/y:1.0')
  assert.match(
    setup([{ registryType: 'pypi', identifier: "x'; rm -rf /" }], 'Claude Code') ?? '',
    "uvx 'x'\\''; rm -rf /'",
  )
  assert.equal(listSetups({ name: 'a/b', packages: [{ registryType: 'toString', identifier: 'x' }] }), [])
  assert.equal(listSetups({ name: 'a/b', remotes: [{ type: 'sse', url: 'javascript:x' }] }), [])
})

test.run()
