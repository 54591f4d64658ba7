import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PublicError } from '../../../dataplane/server/errors.ts'
import {
  connectRedis,
  type RedisClient,
  type RedisConfig,
  redisKeyPrefix,
  withRedis,
} from '../../../dataplane/storage/redis.ts'
import { eventually } from '../../support/eventually.ts'
import { recordLog } from '../../support/kept-log.ts'
import { mountVolume } from '../../support/mounted-volume.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { freePort } from '../../support/network/free-port.ts'
import { type RedisServerOptions, startRedis } from '../../support/network/redis-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const start = async (options?: RedisServerOptions) => {
  const server = await startRedis(options)
  let stopped = false
  const stop = async () => {
    if (!stopped) await server.stop()
    stopped = true
  }
  cleanups.push(stop)
  return { ...server, stop }
}
const connect = (config: Partial<RedisConfig>, log = recordLog().log): RedisClient => {
  const client = connectRedis({ mode: 'standalone', addresses: [], ...config }, log)
  cleanups.push(() => client.disconnect())
  return client
}
const isUsable = (client: RedisClient) =>
  withRedis(client, async (redis) => (await redis.set('k', 'v')) === 'OK' && (await redis.get('k')) === 'v').catch(
    () => false,
  )
const expectRefused = async (client: RedisClient): Promise<PublicError> => {
  try {
    await withRedis(client, (redis) => redis.get('k'))
  } catch (error) {
    assert.instance(error, PublicError)
    return error as PublicError
  }
  return assert.unreachable('it answered') as never
}

test('keys of a workload share a slot', () => {
  assert.is(
    redisKeyPrefix({ kind: 'VirtualMCPServer', namespace: 'team', name: 'demo' }),
    'portico:{VirtualMCPServer/team/demo}:',
  )
})

test('nothing is connected before the first command', async () => {
  const client = connect({ addresses: [`127.0.0.1:${await freePort()}`] })
  assert.is(client.status, 'wait')
})

test('a single server, in the named database', async () => {
  const server = await start()
  const client = connect({ addresses: [server.address], db: 3 })
  assert.ok(await isUsable(client))
  assert.is(await connect({ addresses: [server.address] }).get('k'), null)
})

test('a server that goes down causes 503 at once and one log line, and is found again', async () => {
  const server = await start()
  const recorder = recordLog()
  const client = connect({ addresses: [server.address] }, recorder.log)
  assert.ok(await isUsable(client))
  await server.stop()
  await eventually('the change is noticed', () => client.status !== 'ready')
  for (let index = 0; index < 5; index++) {
    const error = await expectRefused(client)
    assert.is(error.code, 'unavailable')
    assert.is(error.status, 503)
    assert.not.match(JSON.stringify([error.message, error.details, error.headers]), /127\.0\.0\.1/)
  }
  await eventually('the outage is logged', () => recorder.lines.length > 0)
  await start({ port: server.port })
  await eventually('it works again', () => isUsable(client))
  assert.is(recorder.lines.filter(({ level }) => level === 'warn').length, 1)
  assert.is(recorder.lines.filter(({ level }) => level === 'info').length, 1)
})

test('a server that is down at the start is found when it comes up', async () => {
  const port = await freePort()
  const client = connect({ addresses: [`127.0.0.1:${port}`] })
  assert.is((await expectRefused(client)).code, 'unavailable')
  await start({ port })
  await eventually('it works', () => isUsable(client))
})

test('a thousand commands that wait for a connection share one attempt', async () => {
  const server = await start()
  const client = connect({ addresses: [server.address] })
  const answers = Promise.all(Array.from({ length: 1000 }, () => isUsable(client)))
  await eventually('it is connecting', () => client.status !== 'wait')
  assert.ok(client.listenerCount('ready') < 10)
  assert.ok((await answers).every(Boolean))
})

test('credentials are read for each connection, so that a rotated password works', async () => {
  const acl = (password: string) => ['user default off', `user portico on >${password} ~portico:* ~k +@all`]
  const server = await start({ settings: acl('one-one-one') })
  const volume = await mountVolume({ username: 'portico', password: 'one-one-one\n' })
  cleanups.push(volume.remove)
  const recorder = recordLog()
  const client = connect(
    {
      addresses: [server.address],
      usernameFile: join(volume.directory, 'username'),
      passwordFile: join(volume.directory, 'password'),
    },
    recorder.log,
  )
  assert.ok(await isUsable(client))
  await server.stop()
  await start({ port: server.port, settings: acl('two-two-two') })
  await eventually('the old password is refused', () => recorder.text().includes('WRONGPASS'))
  await volume.update({ username: 'portico', password: 'two-two-two' })
  await eventually('the new one is used', () => isUsable(client))
  assert.match(recorder.text(), /WRONGPASS/)
  assert.not.match(recorder.text(), /one-one-one|two-two-two/)
})

test('missing secrets do not prevent a later connection', async () => {
  const server = await start({ settings: ['requirepass three-three-three'] })
  const volume = await mountVolume({ other: '' })
  cleanups.push(volume.remove)
  const client = connect({ addresses: [server.address], passwordFile: join(volume.directory, 'password') })
  assert.is((await expectRefused(client)).code, 'unavailable')
  await volume.update({ password: 'three-three-three' })
  await eventually('it works', () => isUsable(client))
})

test('TLS works with a private CA, which may appear later', async () => {
  const authority = await createAuthority()
  cleanups.push(authority.remove)
  const port = await freePort()
  const file = (name: string) => join(authority.directory, name)
  await start({
    port,
    settings: [
      ...['port 0', `tls-port ${port}`, 'tls-auth-clients no'],
      ...[`tls-cert-file ${file('cert.pem')}`, `tls-key-file ${file('key.pem')}`, `tls-ca-cert-file ${file('ca.pem')}`],
    ],
  })
  const addresses = [`localhost:${port}`]
  assert.is((await expectRefused(connect({ addresses, tls: {} }))).code, 'unavailable')
  assert.ok(await isUsable(connect({ addresses, tls: { insecureSkipVerify: true } })))
  const client = connect({ addresses, tls: { caFile: file('bundle.pem') } })
  assert.is((await expectRefused(client)).code, 'unavailable')
  await writeFile(file('bundle.pem'), authority.ca)
  await eventually('it works', () => isUsable(client))
})

test('a cluster', async () => {
  const server = await start({
    settings: ['cluster-enabled yes', 'cluster-announce-ip 127.0.0.1', `cluster-port ${await freePort()}`],
  })
  const setUp = connect({ addresses: [server.address] })
  await setUp.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
  await eventually('the cluster is up', async () =>
    String(await setUp.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  )
  const client = connect({ mode: 'cluster', addresses: [server.address] })
  assert.ok(await isUsable(client))
  const prefix = redisKeyPrefix({ kind: 'A', namespace: 'b', name: 'c' })
  await withRedis(client, (redis) => redis.mset({ [`${prefix}one`]: '1', [`${prefix}two`]: '2' }))
  assert.equal(await client.mget(`${prefix}one`, `${prefix}two`), ['1', '2'])
  await server.stop()
  assert.is((await expectRefused(client)).code, 'unavailable')
})

test('Sentinel tells which server is the master', async () => {
  const master = await start()
  const sentinel = await start({
    sentinel: true,
    settings: [`sentinel monitor main 127.0.0.1 ${master.port} 1`, 'sentinel down-after-milliseconds main 500'],
  })
  const client = connect({ mode: 'sentinel', addresses: [sentinel.address], masterName: 'main' })
  assert.ok(await isUsable(client))
  assert.is(await connect({ addresses: [master.address] }).get('k'), 'v')
  const wrong = connect({ mode: 'sentinel', addresses: [sentinel.address], masterName: 'other' })
  assert.is((await expectRefused(wrong)).code, 'unavailable')
})

for (const address of ['', 'a b:1', ':6379'])
  test(`${JSON.stringify(address)} is no address`, () =>
    assert.throws(() => connect({ addresses: [address] }), /address/))

test.run()
