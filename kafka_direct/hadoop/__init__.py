"""The file systems of Hadoop, in a JVM: where Spark keeps its checkpoint, with Spark's credentials."""

from .stores import HadoopStores

__all__ = ["HadoopStores"]
