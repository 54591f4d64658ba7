import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ImageOptions, imageArchive } from '../../build/image/archive.ts'
import { type TarEntry, tar } from '../../build/image/tar.ts'
import { NODE_FLAGS } from '../../build/node-flags.ts'
import { temporaryFolder } from '../support/folder.ts'

const file = (path: string, text: string, more: Partial<TarEntry> = {}): TarEntry => ({
  path,
  type: 'file',
  mode: 0o644,
  content: Buffer.from(text),
  ...more,
})

const deep = `${'folder/'.repeat(20)}file`
const entries: TarEntry[] = [
  file('etc/hosts', 'one\n'),
  file('bin/run', 'two', { mode: 0o755, owner: 65_532 }),
  file('full', 'x'.repeat(512)),
  file('empty', ''),
  file(deep, 'deep'),
  { path: 'bin/walk', type: 'link', mode: 0o777, target: 'run' },
  { path: 'tmp', type: 'folder', mode: 0o1777 },
]

const image: ImageOptions = {
  name: 'example/thing:1',
  layers: [entries, [file('app', 'app')]],
  entrypoint: ['/bin/run'],
  env: { A: '1', B: '2' },
  user: '65532:65532',
  workingDir: '/app',
  compress: true,
}

test('the system’s tar unpacks the archive', () => {
  using folder = temporaryFolder()
  const archive = join(folder.path, 'a.tar')
  writeFileSync(archive, tar(entries))
  const listed = execFileSync('tar', ['--list', '--verbose', '--numeric-owner', '--file', archive], {
    encoding: 'utf8',
    env: { ...process.env, TZ: 'UTC' },
  })
  assert.match(listed, /^-rwxr-xr-x 65532\/65532 +3 1970-01-01 00:00 bin\/run$/m)
  assert.match(listed, /^lrwxrwxrwx 0\/0 .* bin\/walk -> run$/m)
  assert.match(listed, /^drwxrwxrwt 0\/0 .* tmp\/$/m)
  assert.match(listed, /^drwxr-xr-x 0\/0 .* etc\/$/m)
  execFileSync('tar', ['--extract', '--no-same-owner', '--file', archive, '--directory', folder.path])
  for (const { path, content } of entries) {
    if (content) assert.ok(Buffer.from(content).equals(readFileSync(join(folder.path, path))), path)
  }
  assert.is(readFileSync(join(folder.path, 'bin/walk'), 'utf8'), 'two')
})

test('the same files give the same bytes in any order, and of two with the same path the later counts', () => {
  assert.ok(tar(entries).equals(tar([...entries].reverse())))
  assert.ok(tar([file('a', 'old'), file('a', 'new')]).equals(tar([file('a', 'new')])))
  assert.ok(
    imageArchive(image).equals(imageArchive({ ...image, layers: [[...entries].reverse(), [file('app', 'app')]] })),
  )
})

test('a path that is too long for a tar header is refused', () => {
  assert.throws(() => tar([file('x'.repeat(101), '')]), /too long/)
  assert.throws(() => tar([file(`${'x'.repeat(156)}/y`, '')]), /too long/)
  assert.throws(() => tar([{ path: 'l', type: 'link', mode: 0o777, target: 'x'.repeat(101) }]), /too long/)
})

for (const compress of [true, false]) {
  test(`an archive is an OCI layout and a docker archive, ${compress ? 'compressed' : 'plain'}`, () => {
    using folder = temporaryFolder()
    const archive = join(folder.path, 'image.tar')
    writeFileSync(archive, imageArchive({ ...image, compress }))
    execFileSync('tar', ['--extract', '--no-same-owner', '--file', archive, '--directory', folder.path])
    const read = (path: string) => readFileSync(join(folder.path, path))
    const json = (path: string) => JSON.parse(read(path).toString('utf8'))
    const digest = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    const blob = ({ digest: name, size }: { digest: string; size: number }) => {
      const bytes = read(`blobs/${name.replace(':', '/')}`)
      assert.is(digest(bytes), name)
      assert.is(bytes.length, size)
      return bytes
    }
    assert.is(json('oci-layout').imageLayoutVersion, '1.0.0')
    const [index] = json('index.json').manifests
    assert.is(index.annotations['io.containerd.image.name'], 'docker.io/example/thing:1')
    const manifest = JSON.parse(blob(index).toString('utf8'))
    const config = JSON.parse(blob(manifest.config).toString('utf8'))
    assert.equal(config.config, {
      User: '65532:65532',
      Env: ['A=1', 'B=2'],
      Entrypoint: ['/bin/run'],
      WorkingDir: '/app',
    })
    const layers = manifest.layers.map(blob).map((bytes: Buffer) => (compress ? gunzipSync(bytes) : bytes))
    assert.equal(config.rootfs.diff_ids, layers.map(digest))
    assert.ok(layers[0].equals(tar(entries)))
    const [docker] = json('manifest.json')
    assert.equal(docker.RepoTags, ['example/thing:1'])
    assert.equal(JSON.parse(read(docker.Config).toString('utf8')), config)
    assert.is(docker.Layers.length, 2)
  })
}

test('a checkout and an installed package give Node the same flags', () => {
  assert.match(readFileSync('bin/portico', 'utf8'), ` ${NODE_FLAGS.join(' ')} "$entry"`)
})

test.run()
