import { asFile, extend } from '../../crds/settings/file-form.ts'
import { databaseNumber, hostAndPort, masterName, redisConnection, redisUser } from '../../crds/settings/redis.ts'
import { choice, list, type Static, Type } from '../../crds/settings/schema.ts'

const { usernameFile, passwordFile } = asFile(redisUser).properties

/** The connection to Redis: one server, a Cluster by some of its nodes, or the master that Sentinel names. */
export const redisSettings = extend(asFile(redisConnection), {
  mode: Type.Optional(
    choice('gateway', 'The kind of server at the addresses.', ['standalone', 'cluster', 'sentinel'], {
      default: 'standalone',
    }),
  ),
  addresses: list(
    'HOST:PORT of the server, of some nodes of the cluster, or of the Sentinels.',
    hostAndPort('gateway', 'HOST:PORT.'),
    { min: 1 },
  ),
  masterName: Type.Optional(masterName('gateway')),
  db: Type.Optional(asFile(databaseNumber('gateway'))),
  usernameFile: Type.Optional(usernameFile),
  passwordFile: Type.Optional(passwordFile),
})

export type RedisSettings = Static<typeof redisSettings>
