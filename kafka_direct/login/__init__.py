"""Logins that need code of their own: functions for `oauth_cb`, each given by name.

| `oauth_cb` | logs in to | `sasl.oauthbearer.config` | needs |
|---|---|---|---|
| `kafka_direct.login.msk:token` | Amazon MSK with IAM | `region=`, `awsRoleArn=`, ... | `kafka-direct[msk]` |
| `kafka_direct.login.gcp:token` | Google Cloud's managed Kafka | - | `kafka-direct[gcp]` |
| `kafka_direct.login.jwt_file:token` | any, with a token that another program keeps in a file | `file=/path` | - |

Java's configuration of the first two is translated to these names. confluent-kafka calls such a function where the
client is: on the driver, in each worker, in the CLI; and again before the token expires.
"""
