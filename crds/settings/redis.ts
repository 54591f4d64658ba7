/** The Redis settings of manifests. Configuration files share parts of them. */
import { inFile } from './file-form.ts'
import { redisTimeouts } from './gateway/defaults.ts'
import { limits } from './limits.ts'
import { secretKeyRef } from './references.ts'
import { exactlyOne } from './rules.ts'
import { defaulted, duration, flag, integer, list, object, type Reader, Type, text } from './schema.ts'

export const hostAndPort = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: limits.url, pattern: '^[^\\s]+:[0-9]{1,5}$' })

export const masterName = (readBy: Reader) => text(readBy, 'Name of the master set.', { min: 1, max: limits.name })

export const databaseNumber = (readBy: Reader) => integer(readBy, 'Database number.', { minimum: 0, default: 0 })

const tls = (readBy: Reader, description: string) =>
  object(description, {
    caCertSecretRef: Type.Optional(
      inFile('caFile', secretKeyRef(readBy, 'CA certificates (PEM) to trust besides the system’s.')),
    ),
    insecureSkipVerify: defaulted(flag(readBy, 'Accept any certificate. Not for production.', { default: false })),
  })

const connection = (readBy: Reader) => ({
  tls: Type.Optional(tls(readBy, 'TLS to Redis. Absent: no TLS.')),
  sentinelTls: Type.Optional(tls(readBy, 'TLS to the Sentinels. Absent: no TLS.')),
  dialTimeout: defaulted(duration(readBy, 'Longest wait for a connection.', { default: redisTimeouts.dialTimeout })),
  readTimeout: defaulted(duration(readBy, 'Longest wait for an answer.', { default: redisTimeouts.readTimeout })),
  writeTimeout: defaulted(duration(readBy, 'Longest wait for a write.', { default: redisTimeouts.writeTimeout })),
})

const user = (readBy: Reader) =>
  object('Credentials of the Redis user.', {
    usernameSecretRef: Type.Optional(
      inFile('usernameFile', secretKeyRef(readBy, 'User name. Absent: the default user.')),
    ),
    passwordSecretRef: inFile('passwordFile', secretKeyRef(readBy, 'Password.')),
  })

export const redisConnection = object('Connections to Redis.', connection('gateway'))

export const redisUser = user('gateway')

const sentinelConfig = (readBy: Reader) =>
  object(
    'Redis behind Sentinel.',
    {
      masterName: masterName(readBy),
      sentinelAddrs: Type.Optional(list('Sentinels.', hostAndPort(readBy, 'HOST:PORT of a Sentinel.'), { min: 1 })),
      sentinelService: Type.Optional(
        object('Service in front of the Sentinels.', {
          name: text(readBy, 'Name of the Service.', { min: 1, max: limits.name }),
          namespace: Type.Optional(
            text(readBy, 'Its namespace. Absent: that of this object.', { min: 1, max: limits.label }),
          ),
          port: defaulted(integer(readBy, 'Port.', { minimum: 1, maximum: 65535, default: 26379 })),
        }),
      ),
      db: defaulted(databaseNumber(readBy)),
    },
    {
      rules: [exactlyOne('sentinelAddrs', 'sentinelService')],
    },
  )

export const redis = (readBy: Reader) =>
  object(
    'Connection to Redis.',
    {
      addr: Type.Optional(hostAndPort(readBy, 'HOST:PORT of a single server or of one node of a cluster.')),
      sentinelConfig: Type.Optional(sentinelConfig(readBy)),
      clusterMode: defaulted(flag(readBy, '`addr` is a node of a Redis Cluster.', { default: false })),
      aclUserConfig: Type.Optional(user(readBy)),
      ...connection(readBy),
    },
    {
      rules: [
        exactlyOne('addr', 'sentinelConfig'),
        { rule: '!self.clusterMode || has(self.addr)', message: 'clusterMode needs addr' },
        { rule: '!has(self.sentinelTls) || has(self.sentinelConfig)', message: 'sentinelTls needs sentinelConfig' },
      ],
    },
  )
