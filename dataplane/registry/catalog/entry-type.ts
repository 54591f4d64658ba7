/** What an entry of the catalog is. */
export type EntryType = 'server' | 'skill'
