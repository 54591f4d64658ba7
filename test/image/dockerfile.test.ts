/** Parses the Dockerfile and runs its last step: there is no container engine here, and no registry for its base image. */
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { LAYERS, SETTINGS } from '../../build/image/portico.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { temporaryFolder } from '../support/folder.ts'

const dockerfile = readFileSync('Dockerfile', 'utf8')
const [, final = ''] = dockerfile.split('\nFROM scratch\n')
const line = (pattern: RegExp) => pattern.exec(dockerfile)?.[1] ?? ''

test('the Dockerfile and the archive have the same settings', () => {
  assert.is(line(/^ARG NODE=(.*)$/m), packageJson.devDependencies.node)
  assert.match(dockerfile, /^ARG DIGEST=\n\nFROM node:\$\{NODE\}-bookworm-slim\$\{DIGEST\} AS build$/m)
  assert.is(line(/^USER (.*)$/m), SETTINGS.user)
  assert.is(/^WORKDIR (.*)$/m.exec(final)?.[1], SETTINGS.workingDir)
  assert.equal(JSON.parse(line(/^ENTRYPOINT (.*)$/m)), SETTINGS.entrypoint)
  assert.equal(
    Object.fromEntries(
      line(/^ENV (.*)$/m)
        .split(' ')
        .map((pair) => pair.split('=')),
    ),
    SETTINGS.env,
  )
  for (const layer of LAYERS) assert.match(dockerfile, `\nCOPY --from=build /image/${layer} /\n`)
})

test('the build context is complete and gives the layers of the archive', () => {
  using folder = temporaryFolder()
  const sent = readFileSync('.dockerignore', 'utf8').matchAll(/^!(.+)$/gm)
  const source = join(folder.path, 'src')
  mkdirSync(source)
  for (const [, pattern = ''] of sent)
    for (const path of globSync(pattern)) cpSync(path, join(source, path), { recursive: true })
  // Linked, or copied if that folder is on another file system: a symbolic link would give the bundler other paths.
  execFileSync('sh', ['-c', `cp -al node_modules ${source} || cp -a node_modules ${source}`])
  const built = join(folder.path, 'image')
  const build = line(/^RUN (node build\/bundle\.ts .*)$/m).replace(' /image', ` ${built}`)
  assert.match(build, built)
  execFileSync('sh', ['-c', build], { cwd: source, stdio: ['ignore', 'ignore', 'inherit'] })

  assert.is(lstatSync(join(built, 'node', 'tmp')).mode & 0o7777, 0o1777)
  assert.is(lstatSync(join(built, 'node', 'usr/local/bin/node')).mode & 0o7777, 0o755)
  assert.ok(lstatSync(join(built, 'git', 'usr/bin/git')).isFile())
  const bom = JSON.parse(readFileSync(join(built, 'portico', 'app/sbom.cdx.json'), 'utf8'))
  const names = bom.components.map(({ name }: { name: string }) => name)
  for (const name of ['node', 'git', 'hono']) assert.ok(names.includes(name), name)
  const portico = execFileSync(process.execPath, [join(built, 'portico', 'app/dist/portico.js'), '--version'])
  assert.match(portico.toString(), packageJson.version)
})

test.run()
