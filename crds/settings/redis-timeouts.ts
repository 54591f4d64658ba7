/** How long Redis is waited for where nothing is said of it. */
export const redisTimeouts = { dialTimeout: '5s', readTimeout: '3s', writeTimeout: '3s' } as const
