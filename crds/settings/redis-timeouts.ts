/** The default timeouts of Redis. */
export const redisTimeouts = { dialTimeout: '5s', readTimeout: '3s', writeTimeout: '3s' } as const
