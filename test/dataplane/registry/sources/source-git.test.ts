import { execFileSync } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { deflateSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createKeptClones } from '../../../../dataplane/registry/sources/format/kept-clones.ts'
import { git as runGit } from '../../../../dataplane/registry/sources/git/git-command.ts'
import { pollGit } from '../../../../dataplane/registry/sources/git/poll-git.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GitServer, startGitServer } from '../../../support/network/git-server.ts'
import { startUpstream } from '../../../support/network/upstream.ts'
import { endFileOnError } from '../../../support/or-fail.ts'
import {
  allTried,
  type List,
  labels,
  registryFile,
  server,
  type TestRegistry,
} from '../../../support/registry/registry.ts'
import { endRegistry, startOwnRegistry, startRegistryWith } from '../../../support/registry/source-registry.ts'

const a1 = registryFile([server('com.example/a')])
const ab = registryFile([server('com.example/a'), server('com.example/b')])

let git: GitServer
let registry: TestRegistry | undefined
test.before.each(async () => {
  git = await startGitServer()
})
test.after.each(async () => {
  await registry?.close()
  registry = undefined
  await git.close()
})
test.after(endRegistry)

const shows = (wanted: readonly string[]) =>
  eventually(
    `${wanted}`,
    async () => JSON.stringify(labels(await (registry as TestRegistry).list('/servers'))) === JSON.stringify(wanted),
  )
const settled = (state: string) =>
  eventually(state, async () => (await (registry as TestRegistry).source('own')).state === state)
const fetches = () => git.requests.filter((url) => url.includes('git-upload-pack') && !url.includes('?')).length

test('a branch is followed; an unchanged one is not fetched; one clone stays on disk', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url, branch: 'main' } })
  await shows(['com.example/a@1.0.0'])

  // A poll is one request for the refs (protocol 2 also uses POST); a fetch is one more.
  const looks = git.requests.length
  const { lastAttempt } = await registry.source('own')
  await eventually('another look', async () => (await registry?.source('own'))?.lastAttempt !== lastAttempt)
  await eventually('its end', async () => (await registry?.source('own'))?.state === 'ok')
  assert.ok(git.requests.length > looks)
  const packs = fetches()
  const perLook = git.requests.length - looks

  git.commit({ 'registry.json': ab })
  await shows(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  assert.ok(git.requests.length - looks > perLook, 'a change is fetched')
  assert.ok(fetches() > packs)
  await settled('ok')
  assert.is((await readdir(join(registry.folder.stateDirectory, 'git'))).length, 1)
})

test('an unchanged repository costs no write, and a commit with the same file one write and no parsing', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
  await settled('ok')
  const etag = (await registry.get('/servers')).headers.get('etag')
  const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
  const commits = () => database.prepare('pragma data_version').get()?.['data_version'] as number
  const twoLooks = async () => {
    const looks = git.requests.length
    await eventually('two looks', () => git.requests.length >= looks + 4)
    await settled('ok')
  }
  const before = commits()
  await twoLooks()
  assert.is(commits(), before)
  git.commit({ 'readme.md': 'Something else.' })
  await eventually('the commit is known', () => commits() > before)
  const known = commits()
  assert.is(known, before + 1)
  await twoLooks()
  assert.is(commits(), known)
  assert.is((await registry.get('/servers')).headers.get('etag'), etag)
  database.close()
})

test('a file of some megabytes is read whole', async () => {
  const servers = Array.from({ length: 400 }, (_, index) =>
    server(`com.example/n${index}`, '1.0.0', { description: `${index} `.repeat(3_000) }),
  )
  git.commit({ 'registry.json': registryFile(servers) })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await eventually('all are there', async () => (await (registry as TestRegistry).source('own')).servers === 400)
  const last = await registry.one('/servers/com.example%2Fn399/versions/latest')
  assert.is(last.server.description, '399 '.repeat(3_000))
})

/** Returns text that compresses to no less than half. */
const noise = (bytes: number) => randomBytes(bytes / 2).toString('hex')
const looks = async (count: number) => {
  for (let index = 0; index < count; index++) {
    const { lastAttempt } = await (registry as TestRegistry).source('own')
    await eventually('another look', async () => (await registry?.source('own'))?.lastAttempt !== lastAttempt)
  }
}
const LARGE = 2_000_000

test('only the needed file of a repository is fetched, and only the folders of commits to other files', async () => {
  git.set('uploadpack.allowFilter', 'true')
  git.commit({ 'registry.json': a1, 'large.bin': noise(LARGE) })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
  assert.ok(git.served() < 100_000, `${git.served()} bytes`)
  git.commit({ 'larger.bin': noise(LARGE) })
  await looks(3)
  await settled('ok')
  git.commit({ 'registry.json': ab })
  await shows(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  assert.ok(git.served() < 200_000, `${git.served()} bytes`)
})

test('a server that does not support filters sends only changes, and nothing twice', async () => {
  git.commit({ 'registry.json': a1, 'large.bin': noise(LARGE) })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
  const first = git.served()
  assert.ok(first > LARGE / 2)
  git.commit({ 'registry.json': ab })
  await shows(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  assert.ok(git.served() - first < 100_000, `${git.served() - first} bytes`)
})

test('a server that refuses filters is asked without them', async () => {
  git.set('uploadpack.allowFilter', 'true')
  git.set('uploadpackfilter.allow', 'false')
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
})

for (const { name, broken, code } of [
  { name: 'a file that is no JSON', broken: { 'registry.json': '{' }, code: 'not_json' },
  { name: 'a file that is not there', broken: { 'other.json': '{' }, code: 'file_missing' },
])
  test(`${name}: its commit is not fetched again, nor is a commit that does not mend it`, async () => {
    git.commit({ ...broken, 'large.bin': noise(LARGE) })
    registry = await startRegistryWith({ git: { repository: git.url } })
    await settled('failed')
    assert.is((await registry.source('own')).error?.code, code)
    const once = git.served()
    await looks(3)
    await settled('failed')
    git.commit({ 'readme.md': 'Something else.' })
    await looks(3)
    await settled('failed')
    assert.is((await registry.source('own')).error?.code, code)
    assert.ok(git.served() - once < 100_000, `${git.served() - once} bytes`)
    git.commit({ 'registry.json': a1 })
    await shows(['com.example/a@1.0.0'])
    await settled('ok')
  })

test('a repository that is too large is fetched once, until there is another commit', async () => {
  git.commit({ 'registry.json': a1, 'large.bin': noise(LARGE) })
  registry = await startRegistryWith({ git: { repository: git.url } }, { rest: { limits: { sourceBytes: 500_000 } } })
  await settled('failed')
  assert.match((await registry.source('own')).error?.message ?? '', 'needs more than 1000000 bytes')
  const once = git.served()
  await looks(3)
  await settled('failed')
  assert.ok(git.served() - once < 100_000, `${git.served() - once} bytes`)
  git.run('rm', '--quiet', 'large.bin')
  git.commit({})
  await shows(['com.example/a@1.0.0'])
})

/** Returns a pack of two objects, of which the second repeats the first (64 KiB) this many times. */
function packOf(times: number): Buffer {
  const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)])
  const head = (type: number, size: number) =>
    Buffer.from(size < 16 ? [(type << 4) | size] : [128 | (type << 4) | (size & 15), ...varint(size >>> 4)])
  const length = 64 * 1024
  const first = Buffer.concat([head(3, length), deflateSync(Buffer.alloc(length))])
  // One byte copies 64 KiB from the start.
  const delta = Buffer.from([...varint(length), ...varint(length * times), ...Array<number>(times).fill(0x80)])
  const second = Buffer.concat([head(6, delta.length), Buffer.from([first.length]), deflateSync(delta)])
  const pack = Buffer.concat([Buffer.from('PACK\0\0\0\x02\0\0\0\x02', 'latin1'), first, second])
  return Buffer.concat([pack, Buffer.from(hash('sha1', pack, 'hex'), 'hex')])
}

test('a few bytes of a pack that are an object of 300 MiB are refused, and take no memory', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'portico-pack-'))
  const { signal } = new AbortController()
  const options = { timeoutMs: 60_000, maxBytes: 1024 * 1024, signal }
  const index = async (times: number) => {
    const file = join(folder, `${times}.pack`)
    await writeFile(file, packOf(times))
    return runGit(['--git-dir', folder, 'index-pack', file], options)
  }
  try {
    await runGit(['init', '--quiet', '--bare', '--template=', folder], options)
    await index(10)
    const refused = await index(4_800).then(
      () => assert.unreachable() as never,
      (error) => error,
    )
    assert.equal(
      [refused.code, refused.message],
      ['too_large', 'git would need more than 128 MiB for one object in it'],
    )
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('sources of one repository share its clone, except with other credentials', async () => {
  git.commit({ 'registry.json': a1, 'b.json': registryFile([server('com.example/b')]), 'large.bin': noise(LARGE) })
  git.protect('bot:right-secret')
  const source = (name: string, path: string, passwordFile: string) => ({
    name,
    git: { repository: git.url, path, auth: { username: 'bot', passwordFile } },
    syncPolicy: { interval: '1s' },
  })
  const sources = [source('own', 'registry.json', '../right'), source('more', 'b.json', '../right')]
  registry = await startRegistryWith(
    {},
    {
      files: { right: 'right-secret', wrong: 'wrong-secret' },
      rest: {
        sources: [...sources, source('sly', 'b.json', '../wrong')],
        registries: [{ name: 'main', sources: ['own', 'more', 'sly'] }],
      },
    },
  )
  await shows(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  assert.ok(git.served() < LARGE, `${git.served()} bytes`)
  assert.is((await registry.source('sly')).error?.code, 'forbidden')
})

/** Runs a registry over sources `s0`, `s1`, …, each with its own view of the same name, until each was tried once. */
async function registryOfEach(
  places: readonly (readonly [repository: string, place: object, ...unknown[]])[],
): Promise<TestRegistry> {
  const names = places.map((_, at) => `s${at}`)
  const sources = places.map(([repository, place], at) => ({
    name: names[at],
    git: { repository, ...place },
    syncPolicy: { interval: '1h' },
  }))
  registry = await startRegistryWith(
    {},
    { rest: { sources, registries: names.map((name) => ({ name, sources: [name] })) } },
  )
  await allTried(registry)
  return registry
}

/** Returns the error of the source with this number. It may be read again at this moment, so this waits for the end. */
async function readError({ source }: TestRegistry, at: number) {
  let seen = await source(`s${at}`)
  await eventually('it has failed', async () => (seen = await source(`s${at}`)).state === 'failed')
  return seen.error
}

/** Returns what the source with this number has. */
async function namesIn({ url }: TestRegistry, at: number): Promise<string[]> {
  const answer = await fetch(`${url}/registry/s${at}/v0.1/servers`)
  assert.is(answer.status, 200)
  return labels((await answer.json()) as List)
}

test('a tag, a commit and another path are read', async () => {
  const first = git.commit({ 'other.json': a1 })
  git.tag('v1', first)
  git.commit({ 'other.json': ab })
  const places = [{ tag: 'v1' }, { commit: first }]
  const running = await registryOfEach(
    places.map((place, at) => [git.urlOf(`${at}`), { path: 'other.json', ...place }]),
  )
  for (const at of places.keys()) assert.equal(await namesIn(running, at), ['com.example/a@1.0.0'])
})

test('without a ref the repository’s default branch is read', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
})

test('credentials come from a file that is read each time, and appear nowhere', async () => {
  git.commit({ 'registry.json': a1 })
  git.protect('bot:right-secret')
  registry = await startRegistryWith(
    { git: { repository: git.url, auth: { username: 'bot', passwordFile: '../password' } } },
    { files: { password: 'wrong-secret\n' } },
  )
  await settled('failed')
  const { error } = await registry.source('own')
  assert.is(error?.code, 'forbidden')
  await registry.folder.write('password', 'right-secret\n')
  await shows(['com.example/a@1.0.0'])
  const told = JSON.stringify([registry.log.lines, await registry.status()])
  for (const secret of ['wrong-secret', 'right-secret', Buffer.from('bot:right-secret').toString('base64')])
    assert.not.ok(told.includes(secret))
})

test('credentials follow a redirect on their own host, and none to another', async () => {
  git.commit({ 'registry.json': a1 })
  let to = ''
  const home = await startUpstream((url, response, request) => {
    if (url.pathname.startsWith('/old/'))
      response.writeHead(301, { location: `${to}${url.pathname.slice('/old'.length)}${url.search}` }).end()
    else relay(git.url, url, request, response)
  })
  const other = await startUpstream((url, response, request) => relay(git.url, url, request, response))
  try {
    registry = await startRegistryWith(
      { git: { repository: `${home.url}/old/.git`, auth: { username: 'bot', passwordFile: '../password' } } },
      { files: { password: 'right-secret\n' } },
    )
    await shows(['com.example/a@1.0.0'])
    assert.ok(home.requests.every(({ headers }) => headers.authorization !== undefined))
    to = other.url
    await settled('failed')
    assert.is((await registry.source('own')).error?.code, 'moved')
    assert.equal(other.requests, [])
    await registry.close()

    // Without credentials the redirect is followed, but not to every address.
    registry = await startRegistryWith({ git: { repository: `${home.url}/old/.git` } })
    await shows(['com.example/a@1.0.0'])
    to = 'http://169.254.169.254'
    await settled('failed')
    assert.is((await registry.source('own')).error?.code, 'private_address')
  } finally {
    await Promise.all([home.close(), other.close()])
  }
})

test('the host that is checked is the host that is called', async () => {
  const inside = await startUpstream((_url, response) => response.writeHead(404).end())
  const repository = `http://127.0.0.1:1\\@${new URL(inside.url).host}/x`
  assert.is(new URL(repository).host, '127.0.0.1:1')
  registry = await startRegistryWith({ git: { repository } })
  await settled('failed')
  assert.equal(inside.requests, [])
  await inside.close()
})

test('neither the environment nor the working folder changes how git behaves', async () => {
  git.commit({ 'registry.json': a1 })
  const folder = await mkdtemp(join(tmpdir(), 'portico-checkout-'))
  const asked: string[] = []
  const upstream = await startUpstream((_url, response, { headers }) => {
    asked.push(`${headers.authorization} ${headers['x-token']}`)
    response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
  })
  const { HOME } = process.env
  const cwd = process.cwd()
  try {
    const checkout = join(folder, 'checkout')
    execFileSync('git', ['init', '--quiet', checkout])
    execFileSync('git', ['-C', checkout, 'config', `http.${upstream.url}/.extraHeader`, 'X-Token: of-the-checkout'])
    await writeFile(join(folder, '.netrc'), 'machine 127.0.0.1 login me password of-the-home\n')
    process.env['HOME'] = folder
    process.chdir(checkout)
    const never = new AbortController().signal
    await runGit(['ls-remote', '--', `${upstream.url}/x`], { timeoutMs: 60_000, maxBytes: 1024, signal: never }).then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, 'refuses access'),
    )
    assert.equal(asked, ['undefined undefined'])

    // As inside a git hook.
    process.env['GIT_DIR'] = join(checkout, '.git')
    const before = await readdir(join(checkout, '.git'), { recursive: true })
    await using parts = new AsyncDisposableStack()
    const pass = {
      source: 'own',
      cursor: undefined,
      holdsSkills: false,
      maxBytes: 2 ** 30,
      held: async () => ({ bytes: 0, entries: 0 }),
      stateDirectory: '../state',
      clones: createKeptClones('../state'),
      signal: never,
      parts,
    }
    await mkdir(join(folder, 'state'))
    const place = { kind: 'git', repository: git.url, path: 'registry.json', publicOnly: false } as const
    const content = await (await pollGit(place, pass))?.()
    assert.ok(content !== undefined && 'batches' in content)
    // The folder in which its size is measured during the fetch.
    const kept = await readdir(join(folder, 'state', 'git'), { recursive: true })
    assert.ok(kept.some((name) => name.endsWith('.pack')))
    for await (const { versions } of content.batches) assert.is(versions[0]?.name, 'com.example/a')
    assert.equal(await readdir(join(checkout, '.git'), { recursive: true }), before)
  } finally {
    delete process.env['GIT_DIR']
    process.env['HOME'] = HOME
    process.chdir(cwd)
    await upstream.close()
    await rm(folder, { recursive: true, force: true })
  }
})

for (const { name, place, code } of [
  { name: 'a branch that is not there', place: { branch: 'nowhere' }, code: 'no_such_ref' },
  { name: 'a file that is not there', place: { path: 'nowhere.json' }, code: 'file_missing' },
])
  test(`${name} is reported, and the earlier entries stay`, async () => {
    git.commit({ 'registry.json': a1 })
    registry = await startRegistryWith({ git: { repository: git.url, ...place } })
    await settled('failed')
    assert.is((await registry.source('own')).error?.code, code)
    await registry.folder.configure({
      sources: [{ name: 'own', git: { repository: git.url }, syncPolicy: { interval: '1s' } }],
      registries: [{ name: 'main', sources: ['own'] }],
      auth: { mode: 'anonymous' },
    })
    await shows(['com.example/a@1.0.0'])
  })

test('an unreachable repository is retried, and its earlier entries stay', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url } })
  await shows(['com.example/a@1.0.0'])
  git.protect('nobody:knows')
  await settled('failed')
  await shows(['com.example/a@1.0.0'])
  git.protect(undefined)
  await settled('ok')
})

test('a repository behind a plain web server is read with its whole history', async () => {
  git.commit({ 'registry.json': a1 })
  const { url, close } = await git.plain()
  try {
    registry = await startRegistryWith({ git: { repository: url, branch: 'main' } })
    await shows(['com.example/a@1.0.0'])
    git.commit({ 'registry.json': ab })
    await shows(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  } finally {
    await close()
  }
})

test('a local repository can be read by the configuration, and never by a source of the API', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.fileUrl, branch: 'main' } })
  await shows(['com.example/a@1.0.0'])
  const refused = await fetch(`${registry.url}/v1/sources`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'sly', git: { repository: git.fileUrl } }),
  })
  assert.is(refused.status, 400)
  assert.match(await refused.text(), '/git/repository')
})

for (const repository of ['/etc', 'ssh://git@example.com/x.git', 'git@example.com:x.git', 'ext::sh -c id'])
  test(`${repository} is no repository`, async () => {
    try {
      registry = await startOwnRegistry({ git: { repository } })
      assert.unreachable()
    } catch (error) {
      assert.match((error as Error).message, 'http')
    }
  })

/** Relays the answers of another git server. */
function relay(to: string, { pathname, search }: URL, { method, headers }: IncomingMessage, response: ServerResponse) {
  const pieces: Buffer[] = []
  response.req.on('data', (piece: Buffer) => pieces.push(piece))
  response.req.on(
    'end',
    endFileOnError(async () => {
      const answer = await fetch(`${new URL(to).origin}${pathname}${search}`, {
        method: method as string,
        headers: { 'content-type': headers['content-type'] ?? '', 'git-protocol': String(headers['git-protocol']) },
        ...(method === 'POST' && { body: Buffer.concat(pieces) }),
      })
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
      response.end(Buffer.from(await answer.arrayBuffer()))
    }),
  )
}

test('a path may begin with ./, and a Git LFS pointer is reported as such', async () => {
  git.commit({ 'registry.json': a1 })
  registry = await startRegistryWith({ git: { repository: git.url, path: './registry.json' } })
  await shows(['com.example/a@1.0.0'])
  git.commit({ 'registry.json': 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' })
  await eventually('it is told', async () =>
    ((await registry?.source('own'))?.error?.message ?? '').includes('registry.json is a pointer of Git LFS'),
  )
})

test('a link within the repository is followed; other obstacles are reported by name', async () => {
  git.set('uploadpack.allowFilter', 'true')
  git.commit({ 'registry.json': a1 })
  const at = (path: string) => join(git.folder, path)
  for (const folder of ['catalogs/deep', 'links', 'large/Folder']) await mkdir(at(folder), { recursive: true })
  await writeFile(at('catalogs/deep/real.json'), a1)
  await writeFile(at('large/Folder/registry.json'), a1)
  const links = {
    'links/direct.json': '../catalogs/deep/real.json',
    'links/folder': '../catalogs/./deep',
    'links/chain.json': 'folder/../deep/real.json',
    'links/dangling.json': '../catalogs/none.json',
    'links/out.json': '../../etc/passwd',
    'links/root.json': '/etc/passwd',
    'links/circle.json': 'circle.json',
  }
  for (const [path, target] of Object.entries(links)) await symlink(target, at(path))
  git.run('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},vendor/module`)
  git.run('add', 'catalogs', 'links', 'large')
  git.run('commit', '--quiet', '-m', 'links')

  const found = ['links/direct.json', 'links/folder/real.json', 'links/chain.json', 'catalogs//deep/./real.json']
  const missing = {
    'links/dangling.json':
      'links/dangling.json leads over the link links/dangling.json, and the commit has no file catalogs/none.json',
    'links/out.json': 'links/out.json leads over the link links/out.json out of the repository, where nothing is read',
    'links/root.json': 'links/root.json leads over the link links/root.json out of the repository',
    'links/circle.json': 'links/circle.json leads in a circle',
    '../registry.json': '../registry.json leads out of the repository',
    'vendor/module/registry.json': 'vendor/module is a submodule, whose files are in a repository of its own',
    'vendor/module': 'vendor/module is a submodule',
    'catalogs/deep': 'catalogs/deep is a folder: name a file in it',
    'registry.json/more': 'registry.json is a file of the commit, no folder',
    'none/registry.json': 'the commit has no file none/registry.json: there is no none',
    'Registry.json': 'the commit has no file Registry.json, but registry.json, whose name differs by case alone',
    'large/folder/registry.json': 'there is no large/folder, but Folder, whose name differs by case alone',
    ':(top)registry.json': 'the commit has no file :(top)registry.json',
  }
  const running = await registryOfEach(
    [...found, ...Object.keys(missing)].map((path, at) => [git.urlOf(`${at}`), { path }]),
  )
  for (const at of found.keys()) assert.equal(await namesIn(running, at), ['com.example/a@1.0.0'])
  for (const [at, message] of Object.values(missing).entries()) {
    const error = await readError(running, found.length + at)
    assert.is(error?.code, 'file_missing')
    assert.ok(error?.message.startsWith(message) || error?.message.includes(`: ${message}`), error?.message)
  }
})

test('a missing repository, and one of another user, are reported as such', async () => {
  git.commit({ 'registry.json': a1 })
  const expectErrors = async (
    ...places: (readonly [repository: string, place: object, code: string, message: string])[]
  ) => {
    const running = await registryOfEach(places)
    for (const [at, [, , code, message]] of places.entries()) {
      const error = await readError(running, at)
      assert.match(error?.message ?? '', message)
      assert.is(error?.code, code)
    }
  }
  const elsewhere = git.url.replace('/.git', '/none.git')
  await expectErrors(
    [elsewhere, {}, 'no_repository', `no repository at ${elsewhere}`],
    [`file://${git.folder}/none`, {}, 'no_repository', `there is no git repository at ${git.folder}/none`],
    [git.url, { commit: '1'.repeat(40) }, 'no_such_ref', 'the repository does not serve this commit'],
  )
  // Only root can change a folder's owner.
  if (process.getuid?.() !== 0) return
  await registry?.close()
  execFileSync('chown', ['-R', '1234', git.folder])
  await expectErrors([git.fileUrl, {}, 'forbidden', `${git.folder}/.git belongs to another user`])
})

test('a repository whose ids are SHA-256 is read', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sha256-'))
  const inFolder = (...args: string[]) => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' }).trim()
  try {
    inFolder('init', '--quiet', '--object-format=sha256', '--initial-branch=main')
    await writeFile(join(folder, 'registry.json'), a1)
    inFolder('add', '.')
    inFolder('-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '--quiet', '-m', 'first')
    assert.is(inFolder('rev-parse', 'HEAD').length, 64)
    registry = await startRegistryWith({ git: { repository: `file://${folder}`, branch: 'main' } })
    await shows(['com.example/a@1.0.0'])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test.run()
