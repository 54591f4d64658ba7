/** Keycloak from its makers' release in the Maven repository. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { cacheFolder, workFolder } from './cache.ts'
import { run } from './program.ts'

const VERSION = '26.7.3'
const SHA256 = '27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f'
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy'

/**
 * What Keycloak's own build fixes, so that each start saves more than half of its time: a database in memory, one
 * instance, and two features that are off by default, which redeeming ID-JAGs needs.
 */
const BUILD = ['--db=dev-mem', '--cache=local', '--features=jwt-authorization-grant,identity-assertion-jwt']

const BUILT = createHash('sha256').update(BUILD.join(' ')).digest('hex').slice(0, 12)

const folder = () => join(cacheFolder(), `keycloak-${VERSION}-${BUILT}`)

export const hasKeycloak = (): boolean => existsSync(folder())

/**
 * Returns Keycloak's folder. Copy it before the start, because Keycloak writes into it. Throws if set-up has not run.
 */
export function keycloakFolder(): string {
  if (!hasKeycloak()) throw new Error(`no ${folder()}: \`make e2e\` fetches it`)
  return folder()
}

/** Downloads, unpacks and builds Keycloak atomically. Only the holder of the lock may call it. */
export async function makeKeycloak(progress: (state: string) => void): Promise<void> {
  const work = workFolder()
  const artifact = `-Dartifact=org.keycloak:keycloak-quarkus-dist:${VERSION}:zip`
  progress('fetching')
  await run({ program: 'mvn', args: ['-q', '-B', COPY, artifact, `-DoutputDirectory=${work}`], cwd: work })
  const archive = join(work, `keycloak-quarkus-dist-${VERSION}.zip`)
  const digest = createHash('sha256')
  await pipeline(createReadStream(archive), digest)
  const found = digest.digest('hex')
  if (found !== SHA256) throw new Error(`${archive} has the SHA-256 ${found}, not ${SHA256}`)
  progress('unpacking')
  await run({ program: 'unzip', args: ['-q', archive, '-d', work] })
  const home = join(work, `keycloak-${VERSION}`)
  progress('building')
  await run({ program: join(home, 'bin/kc.sh'), args: ['build', ...BUILD], cwd: home })
  mkdirSync(dirname(folder()), { recursive: true })
  renameSync(home, folder())
}
