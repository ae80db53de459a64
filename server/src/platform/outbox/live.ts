import { accountLimits, type LiveEnd, type LiveMessage } from '@bursar/contract'
import { seconds, stopwatch } from '../clock.ts'
import type { Log } from '../log.ts'
import { hintsAfter, lastSequence, type EventHint } from './outbox.sql.ts'
import type { Db } from '../postgres/postgres.ts'
import type { Numbered } from './numbered.ts'

/** Missed hints that are sent to a client that reconnects. If more were missed, it must load everything again. */
const mostMissed = 1_000
/** Events that are read at once. */
const readAtOnce = 200
/** Bytes that may wait for a client before more are written. A hint has about 300 bytes. */
const mostBuffered = 64 * 1024
/** Time in which a client must have read the missed hints that were sent to it. */
const catchUpTimeout = 10 * seconds
/** A proxy may close a connection that is silent for a minute. */
const keptAliveEvery = 25 * seconds
/** Interval in which the rights of all readers of the process are checked, in one statement. */
const checkedEvery = 5 * seconds
/** Pause after a read, so that a busy organization causes at most ten reads a second in each process. */
const restBetweenReads = 100
const retryAfterError = 1 * seconds

/** The person who reads a stream, as they were when it began. */
export interface LiveReader {
  readonly session_id: string
  readonly organization_id: string
  /** The role of the person in the organization. The stream ends if it changes. */
  readonly role: string
  readonly mayRead: (kind: string) => boolean
}

/** Where a stream begins, and how long it lasts. */
export interface LiveStart {
  /** The last event number that the client has. Undefined for a new client. */
  readonly after: number | undefined
  /** Milliseconds after which the stream ends. With 0, it ends after the missed hints. */
  readonly wait: number
}

/** The connection that a stream is written to. */
export interface LiveSink {
  readonly write: (text: string) => void
  /** The bytes that were written and not sent yet. */
  readonly buffered: () => number
  /** Ends the answer after everything written was sent. */
  readonly end: () => void
  /** Closes the connection at once. */
  readonly destroy: () => void
}

export interface Live {
  /**
   * Begins a stream. Returns a function that begins to write, or undefined if the session or the organization has too
   * many streams.
   */
  readonly join: (reader: LiveReader, from: LiveStart) => Promise<((sink: LiveSink) => () => void) | undefined>
  readonly count: () => number
  /** Ends all streams, and refuses new ones. */
  readonly close: () => void
}

interface Stream {
  readonly reader: LiveReader
  /** Undefined until the answer has begun. */
  sink: LiveSink | undefined
  /** The number of the last event that was read for this stream. */
  position: number
  /** True while the stream reads missed events. The room does not write to it meanwhile. */
  isBehind: boolean
  isOver: boolean
}

/** All streams of one organization. They share one reader of the event log. */
interface Room {
  readonly organization_id: string
  readonly streams: Set<Stream>
  readonly unsubscribe: () => void
  /** The number of the last event that was read for the streams that are not behind. */
  position: number
  isRung: boolean
  reading: Promise<void> | undefined
}

const message = (event: LiveMessage, data: unknown, id?: number): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

const resourceOf = (kind: string): string => kind.slice(0, kind.indexOf('.'))

/**
 * Opens the live streams of this process. Each organization with streams has one reader, which reads the event log when
 * events were numbered. So an idle stream causes no statement, however many there are.
 */
export const openLive = ({
  db,
  numbered,
  log,
  findRoles,
  limits = { session: accountLimits.live_streams_per_session, organization: accountLimits.live_streams_per_organization, buffered: mostBuffered },
}: {
  db: Db
  numbered: Pick<Numbered, 'subscribe'>
  log: Log
  /** Returns the current role of each session in each of its organizations, by `session_id organization_id`. Ended sessions have none. */
  findRoles: (session_ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
  limits?: { readonly session: number; readonly organization: number; readonly buffered: number }
}): Live => {
  const rooms = new Map<string, Room>()
  const closing = new AbortController()
  let joined = 0
  const streams = () => [...rooms.values()].flatMap((room) => [...room.streams])

  const leave = (room: Room, stream: Stream) => {
    stream.isOver = true
    room.streams.delete(stream)
    if (room.streams.size > 0 || rooms.get(room.organization_id) !== room) return
    rooms.delete(room.organization_id)
    room.unsubscribe()
  }
  /** Closes the connection of a client at once, without a message. The client connects again with the number of its last event. */
  const drop = (room: Room, stream: Stream) => {
    if (stream.isOver) return
    leave(room, stream)
    stream.sink?.destroy()
  }
  const end = (room: Room, stream: Stream, reason: LiveEnd) => {
    if (stream.isOver) return
    leave(room, stream)
    stream.sink?.write(message('end', { reason }))
    stream.sink?.end()
  }
  const write = (room: Room, stream: Stream, text: string) => {
    const { sink } = stream
    if (stream.isOver || sink === undefined) return
    // A client that has not read the earlier messages gets no more, so that the memory of a stream is bounded.
    if (sink.buffered() > limits.buffered) return drop(room, stream)
    sink.write(text)
  }
  const writeHints = (room: Room, stream: Stream, hints: readonly EventHint[]) => {
    const text = hints
      .filter(({ kind }) => stream.reader.mayRead(kind))
      .map((hint) => message('hint', { ...hint, resource: resourceOf(hint.kind) }, hint.sequence))
      .join('')
    if (text !== '') write(room, stream, text)
  }

  /** Reads the new events of an organization, and writes them to all its streams that are not behind. */
  const read = async (room: Room): Promise<void> => {
    while (room.isRung && room.streams.size > 0 && !closing.signal.aborted) {
      room.isRung = false
      try {
        const hints = await hintsAfter(db, room.organization_id, room.position, readAtOnce)
        if (hints.length === readAtOnce) room.isRung = true
        room.position = hints.at(-1)?.sequence ?? room.position
        for (const stream of room.streams) {
          if (stream.isBehind) continue
          // A stream that has just caught up may be ahead of its room.
          writeHints(
            room,
            stream,
            hints.filter(({ sequence }) => sequence > stream.position),
          )
          stream.position = Math.max(stream.position, room.position)
        }
        await pause(restBetweenReads)
      } catch (error) {
        log.warn('live_read_failed', { organization_id: room.organization_id, error })
        room.isRung = true
        await pause(retryAfterError)
      }
    }
  }
  const ring = (room: Room) => {
    room.isRung = true
    room.reading ??= read(room).finally(() => {
      room.reading = undefined
      // A notification may arrive after the last look of the loop.
      if (room.isRung && room.streams.size > 0 && !closing.signal.aborted) ring(room)
    })
  }

  /** Reads the events that a client missed. When it has the position of its room, the room writes to it. */
  const catchUp = async (room: Room, stream: Stream): Promise<void> => {
    try {
      while (!stream.isOver && stream.position < room.position) {
        const hints = await hintsAfter(db, room.organization_id, stream.position, readAtOnce)
        writeHints(room, stream, hints)
        stream.position = hints.at(-1)?.sequence ?? room.position
        await untilRead(room, stream)
      }
      stream.isBehind = false
    } catch (error) {
      log.warn('live_read_failed', { organization_id: room.organization_id, error })
      drop(room, stream)
    }
  }

  /** Waits until the client has read everything. Ends the stream if that takes too long. */
  const untilRead = async (room: Room, stream: Stream): Promise<void> => {
    const elapsed = stopwatch()
    while (!stream.isOver && stream.sink !== undefined && stream.sink.buffered() > 0) {
      if (elapsed() > catchUpTimeout) drop(room, stream)
      else await pause(10)
    }
  }

  const enter = (organization_id: string, position: number): Room => {
    const known = rooms.get(organization_id)
    if (known) return known
    const room: Room = {
      organization_id,
      streams: new Set(),
      unsubscribe: numbered.subscribe(organization_id, () => ring(room)),
      position,
      isRung: false,
      reading: undefined,
    }
    rooms.set(organization_id, room)
    return room
  }

  const check = async (): Promise<void> => {
    const ids = [...new Set(streams().map(({ reader }) => reader.session_id))]
    if (ids.length === 0) return
    const roles = await findRoles(ids)
    for (const room of rooms.values())
      for (const stream of room.streams)
        if (roles.get(`${stream.reader.session_id} ${room.organization_id}`) !== stream.reader.role) end(room, stream, 'rights_changed')
  }
  const keepAlive = () => {
    // A message with only an id makes the browser remember the number. It then misses less after a reconnect.
    for (const room of rooms.values()) for (const stream of room.streams) write(room, stream, `id: ${stream.position}\n\n`)
  }
  const checking = setInterval(() => void check().catch((error: unknown) => log.warn('live_check_failed', { error })), checkedEvery)
  checking.unref()
  const keeping = setInterval(keepAlive, keptAliveEvery)
  keeping.unref()

  return {
    join: async (reader, { after, wait }) => {
      const { session_id, organization_id } = reader
      const head = await lastSequence(db, organization_id)
      if (closing.signal.aborted || streams().filter((stream) => stream.reader.session_id === session_id).length >= limits.session) return undefined
      const room = enter(organization_id, head)
      if (room.streams.size >= limits.organization) return undefined
      // A number above the last one comes from before a restore of the database.
      const last = Math.max(head, room.position)
      const isLost = after !== undefined && (after > last || last - after > mostMissed)
      const stream: Stream = { reader, sink: undefined, position: after === undefined || isLost ? last : after, isBehind: true, isOver: false }
      room.streams.add(stream)
      return (sink) => {
        stream.sink = sink
        // Clients that lose their connections together come back spread over two seconds.
        joined = (joined + 1) % 20
        write(room, stream, `retry: ${1_000 + joined * 100}\n${message('ready', { sequence: stream.position }, stream.position)}`)
        if (isLost) write(room, stream, message('reset', { sequence: stream.position }, stream.position))
        // Events may have been numbered between the first read and the subscription.
        ring(room)
        void catchUp(room, stream).then(() => {
          if (wait === 0) end(room, stream, 'time_over')
        })
        const timer = wait === 0 ? undefined : setTimeout(() => end(room, stream, 'time_over'), wait)
        timer?.unref()
        return () => {
          clearTimeout(timer)
          leave(room, stream)
        }
      }
    },
    count: () => streams().length,
    close: () => {
      closing.abort()
      clearInterval(checking)
      clearInterval(keeping)
      for (const room of rooms.values()) for (const stream of room.streams) end(room, stream, 'draining')
    },
  }
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds).unref())
