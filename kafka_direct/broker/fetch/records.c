/* The loops over records: from the array of messages that librdkafka returns to the buffers of Arrow columns, or to
 * Python objects.
 *
 * Everything else is done in Python, once a chunk (record_array.py, librdkafka.py). This file needs neither Python's nor
 * librdkafka's headers: `struct message` is rd_kafka_message_t, public and unchanged since librdkafka 0.8, and `bind` is
 * given the functions that are called. It is built with the package. Without it, Python does the same more slowly.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define SHOWN __declspec(dllexport)
#else
#define SHOWN
#endif

typedef struct message {
    int error;
    void *topic;
    int32_t partition;
    void *value;
    size_t value_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *internal;
} message;

typedef struct {
    int64_t errors; /* messages that are an error and no record */
    int64_t key_bytes, key_nulls;
    int64_t value_bytes, value_nulls;
} survey;

typedef int on_new(void *client, const void *conf, void *opaque, char *why, size_t why_size);

static int (*add_on_new)(void *conf, const char *name, on_new *call, void *opaque);
static int64_t (*timestamp_of)(const message *record, int *kind);
static void (*destroy)(message *record);
/* Of Python's stable ABI: PyBytes_FromStringAndSize, PyUnicode_DecodeUTF8, PyList_SetItem. */
static void *(*bytes_of)(const char *bytes, ptrdiff_t size);
static void *(*text_of)(const char *bytes, ptrdiff_t size, const char *errors);
static int (*set_item)(void *list, ptrdiff_t place, void *owned);

SHOWN void kafka_direct_bind(void *add_on_new_, void *timestamp_of_, void *destroy_, void *bytes_of_, void *text_of_, void *set_item_) {
    add_on_new = (int (*)(void *, const char *, on_new *, void *))add_on_new_;
    timestamp_of = (int64_t (*)(const message *, int *))timestamp_of_;
    destroy = (void (*)(message *))destroy_;
    bytes_of = (void *(*)(const char *, ptrdiff_t))bytes_of_;
    text_of = (void *(*)(const char *, ptrdiff_t, const char *))text_of_;
    set_item = (int (*)(void *, ptrdiff_t, void *))set_item_;
}

/* confluent-kafka does not show the rd_kafka_t of a Consumer, but librdkafka shows it to its plugins. This library is a
 * plugin of each consumer that names it in plugin.library.paths. It is called in the thread that makes the consumer. */
static _Thread_local void *newest_client;

static int keep_client(void *client, const void *conf, void *opaque, char *why, size_t why_size) {
    (void)conf, (void)opaque, (void)why, (void)why_size;
    newest_client = client;
    return 0;
}

SHOWN int conf_init(void *conf, void **opaque, char *why, size_t why_size) {
    (void)opaque, (void)why, (void)why_size;
    return add_on_new == NULL ? 0 : add_on_new(conf, "kafka_direct", keep_client, NULL);
}

SHOWN void *kafka_direct_take_client(void) {
    void *client = newest_client;
    newest_client = NULL;
    return client;
}

SHOWN void kafka_direct_survey(message *const *records, int64_t count, survey *found) {
    survey sum = {0};
    for (int64_t i = 0; i < count; i++) {
        const message *record = records[i];
        sum.errors += record->error != 0;
        if (record->key == NULL) sum.key_nulls++;
        else sum.key_bytes += (int64_t)record->key_size;
        if (record->value == NULL) sum.value_nulls++;
        else sum.value_bytes += (int64_t)record->value_size;
    }
    *found = sum;
}

/* How many of the first records have at most `limit` bytes of keys and of values; at least one. */
SHOWN int64_t kafka_direct_fitting(message *const *records, int64_t count, int64_t limit) {
    int64_t key_bytes = 0, value_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        key_bytes += records[i]->key == NULL ? 0 : (int64_t)records[i]->key_size;
        value_bytes += records[i]->value == NULL ? 0 : (int64_t)records[i]->value_size;
        if (i > 0 && (key_bytes > limit || value_bytes > limit)) return i;
    }
    return count;
}

/* Keys or values in Arrow's layout. `validity` is zeroed, or NULL if no record lacks one. */
SHOWN void kafka_direct_bytes(message *const *records, int64_t count, int is_key, int32_t *ends, uint8_t *validity, uint8_t *data) {
    int32_t end = 0;
    ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const void *bytes = is_key ? records[i]->key : records[i]->value;
        if (bytes != NULL) {
            const size_t size = is_key ? records[i]->key_size : records[i]->value_size;
            memcpy(data + end, bytes, size);
            end += (int32_t)size;
            if (validity != NULL) validity[i >> 3] |= (uint8_t)(1u << (i & 7));
        }
        ends[i + 1] = end;
    }
}

SHOWN void kafka_direct_offsets(message *const *records, int64_t count, int64_t *offsets) {
    for (int64_t i = 0; i < count; i++) offsets[i] = records[i]->offset;
}

SHOWN void kafka_direct_times(message *const *records, int64_t count, int64_t *milliseconds, int32_t *kinds) {
    for (int64_t i = 0; i < count; i++) {
        int kind = 0;
        milliseconds[i] = timestamp_of(records[i], &kind);
        kinds[i] = kind;
    }
}

/* Puts keys or values, as bytes or text, into `list`, which has a None for each. The caller holds the GIL. If an object
 * cannot be made, as of bytes that are no UTF-8, Python's error is set and the rest of the list is unchanged. */
SHOWN void kafka_direct_objects(message *const *records, int64_t count, int is_key, int is_text, void *list) {
    for (int64_t i = 0; i < count; i++) {
        const void *bytes = is_key ? records[i]->key : records[i]->value;
        if (bytes == NULL) continue;
        const ptrdiff_t size = (ptrdiff_t)(is_key ? records[i]->key_size : records[i]->value_size);
        void *object = is_text ? text_of(bytes, size, NULL) : bytes_of(bytes, size);
        if (object == NULL || set_item(list, (ptrdiff_t)i, object) != 0) return;
    }
}

SHOWN void kafka_direct_destroy(message **records, int64_t count) {
    for (int64_t i = 0; i < count; i++) destroy(records[i]);
}
