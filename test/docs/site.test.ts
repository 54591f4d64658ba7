import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkLinks } from '../../check/links.ts'
import { startBrowser } from '../support/browser.ts'

const root = new URL('../..', import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), 'portico-site-'))
let browser: Browser
let page: Page
const messages: string[] = []

const build = (out: string, env = {}, source = root) =>
  execFileSync(process.execPath, ['site/build.ts', '--root', source, '--out', join(folder, out)], {
    cwd: root,
    env: { ...process.env, ...env },
  })

const open = (path: string) => page.goto(pathToFileURL(join(folder, path)).href)

test.before(async () => {
  build('site')
  browser = await startBrowser()
  page = await browser.newPage()
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith('file:')) messages.push(`asked ${request.url()}`)
  })
})
test.after(async () => {
  await browser.close()
  rmSync(folder, { recursive: true })
})

async function search(words: string): Promise<readonly string[]> {
  await page.focus('site-search input')
  await page.$eval('site-search input', (input) => {
    Object.assign(input, { value: '' })
  })
  await page.keyboard.type(words)
  await page.waitForSelector('.hits a')
  return page.$$eval('.hits a', (links) => links.map((link) => link.getAttribute('href') ?? ''))
}

test('opened from a file, search finds reasons, fields and commands, and leads to their place', async () => {
  await open('site/reference/mcpserver.html')
  assert.is((await search('AudienceMissing'))[0], '../reference/conditions.html#audiencemissing')
  assert.ok((await search('groupRef')).some((href) => href.startsWith('../reference/mcpserver.html#')))
  assert.ok((await search('portico validate')).includes('../reference/commands.html#portico-validate'))
  await search('AudienceMissing')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  assert.match(page.url(), /conditions\.html#audiencemissing$/)
  assert.match(await page.$eval(':target', (row) => row.textContent ?? ''), 'no audience is configured')
  assert.equal(messages, [])
})

test('no page is wider than a narrow screen, and every link leads to a page and an anchor that are there', async () => {
  await page.setViewport({ width: 360, height: 800 })
  for (const path of ['index.html', 'operator.html', 'reference/virtualmcpserver.html', 'reference/commands.html']) {
    await open(`site/${path}`)
    assert.is(await page.evaluate('document.documentElement.scrollWidth'), 360, path)
    const links = await page.$$eval('a[href]', (all) =>
      all.map((a) => [a.getAttribute('href'), (a as unknown as { href: string }).href]),
    )
    for (const [href = '', url = ''] of links as string[][]) {
      if (!url.startsWith('file:')) continue
      const [file = '', anchor] = url.replace(/^file:\/\//, '').split('#')
      assert.ok(existsSync(file), `${path}: ${href}`)
      if (anchor) assert.match(readFileSync(file, 'utf8'), `id="${decodeURIComponent(anchor)}"`)
    }
  }
  await page.setViewport({ width: 1200, height: 800 })
})

test('the list of all pages names every page of docs', () => {
  const list = readFileSync(join(root, 'docs/README.md'), 'utf8')
  for (const name of readdirSync(join(root, 'docs')))
    if (name.endsWith('.md') && name !== 'README.md') assert.match(list, `(${name})`)
})

test('two versions stand side by side, and the choice of another keeps the page', async () => {
  // A separate repository: a checkout in CI may have no history and no tags.
  const source = join(folder, 'repository')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-C', source, ...args])
  mkdirSync(source)
  for (const name of ['README.md', 'docs', 'package.json'])
    cpSync(join(root, name), join(source, name), { recursive: true })
  git('init', '--quiet')
  git('add', '.')
  for (const tag of ['v0.1', 'v0.2']) {
    writeFileSync(join(source, 'docs/audit.md'), `# Audit log of ${tag}\n`)
    git('commit', '--quiet', '--all', '--message', tag)
    git('tag', tag)
  }
  build('versions', { REFS: 'v0.1 v0.2' }, source)
  await open('versions/v0.2/audit.html')
  await Promise.all([page.waitForNavigation(), page.select('select[aria-label=Version]', 'v0.1')])
  assert.ok(page.url().endsWith('/versions/v0.1/audit.html'), page.url())
  assert.is(await page.$eval('h1', (heading) => heading.textContent), 'Audit log of v0.1')
  assert.equal(JSON.parse(readFileSync(join(folder, 'versions/versions.json'), 'utf8')), ['v0.1', 'v0.2'])
})

test('a dead link, a dead anchor and a heading that skips a level are found', () => {
  const docs = join(folder, 'docs')
  mkdirSync(docs)
  writeFileSync(join(docs, 'a.md'), '# A\n\n[there](b.md#b), [gone](c.md)\nand [lost](b.md#c)\n\n### Deep\n')
  writeFileSync(join(docs, 'b.md'), '# B\n')
  assert.equal(checkLinks(folder, ['docs/a.md']), [
    'docs/a.md:3: c.md leads nowhere',
    'docs/a.md:3: docs/b.md has no heading #c',
    'docs/a.md:6: "Deep" skips a level of headings',
  ])
})

test.run()
